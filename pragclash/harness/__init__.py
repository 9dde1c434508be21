"""Every place that reaches into lmms-eval, written for and pinned to version 0.7.3.

| module | mends |
|---|---|
| `plugin` | installed packages can register models but no tasks and no checks |
| `tasks` | the index of tasks: ours are added, the harness's read once and only where needed |
| `evaluation` | a failed evaluation, empty answers and unwritten results exit 0 |
| `arguments` | arguments and data that fail only after a model was loaded, or as a traceback |
| `answers` | answers that are no result; standard errors over other documents than the value |
| `cache` | a key without the picture, stored failures, nothing stored before the run is through |
| `seals` | answers handed between processes, whose measurements could be forged on the way |

Two places lie below, because what they mend belongs to one backend or one benchmark:
`model_wrappers.verdict` stands in for a backend's `generate`, its processor, its progress bar and
its documents while a request runs (`local`, `intercept`, `no_picture`, `profiles`); and
`lmms_eval_tasks.documents` lets faults leave as `SystemExit`, since the harness retries and then
swallows every other exception of `process_docs` and `process_results`.
"""
