"""The build job: builds models on the hardware that serves them, and publishes them to a repository.

- `model_build_project`: one build of models, on a machine of `machines`.
- `build_runs`: many builds at a time, of the models that changed; `run_states` has the states of a run.
- `commands`: the commands of a build, wherever it runs.
- `codebuild`, `processing_jobs`: builds in CodeBuild and in SageMaker Processing jobs.
- `source`, `inputs`: the folder that models are built from, trained weights, and the token of a private hub.
- `working_folder`: the timing cache and the results of runs, next to the artifacts.
- `code`: the program that starts a Processing job.
- `checks`, `machine_checks`: the checks of arguments and of machines.
"""
