"""The build job: builds models on the hardware that serves them, and publishes them to a repository.

- `model_build_project`: one build of models, on a machine of `machines`.
- `build_runs`: many builds at a time, of the models that changed.
- `commands`: the commands of a build, wherever it runs.
- `codebuild`, `processing_jobs`: builds in CodeBuild and in SageMaker Processing jobs.
- `source`: the folder that models are built from, and the toolkit.
- `inputs`: trained weights, the token of a private hub, and environment variables.
- `working_folder`: the timing cache and the results of runs, next to the artifacts.
- `code`: the program that starts a Processing job.
"""
