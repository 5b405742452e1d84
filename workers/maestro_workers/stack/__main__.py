"""`python -m maestro_workers.stack --project ROOT`: supervise one project's stack."""

from maestro_state.startup import own_modules_first

own_modules_first()

from maestro_workers.stack.supervisor import main  # noqa: E402  # only now are the modules it imports our own

raise SystemExit(main())
