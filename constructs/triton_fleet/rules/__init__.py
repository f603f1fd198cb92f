"""What must hold between values, one rule a file.

A rule is a pure function over facts: it takes what was given and where, and returns a `Problem` or None.
Each has a stable id (`RULE`) and names its source; one that follows from the arguments alone begins with the
words "No source". Rules about a single field are not here: CloudFormation's schema has those, and the CDK
checks it.
"""
