"""All that is RQ's. Nothing else imports it; an import rule says so.

RQ is the wake-up: it carries two names to a worker that is free. What may be done with them, who has a run and how it
ended is decided by Maestro's own records. So RQ's worker, job and queue are used as they are but for what follows,
measured against RQ 2.12. A test holds this page to the code, and RQ to what is relied on: it fails when a newer RQ
changes the signature of anything overridden, the body of what is replaced, or a name that is used.

Replaced, because RQ's own would be unsafe, or everybody's on a server that a team shares:

    Job.refresh                     reads known fields of bounded size; RQ's unpickles and imports what a job names
    Job.func                        looks the function up in a list; RQ's imports it
    Job.perform                     does not take from the job's key the time it has to live
    Worker.redis_workers_keys       this queue's workers; RQ's set is of all workers on the server
    Queue.redis_queues_keys         this namespace's queues; RQ's set is of all queues on the server
    Worker.check_for_suspension     nothing: the key that suspends is everybody's
    Worker.run_maintenance_tasks   looks after lost runs on every turn; RQ's upkeep but for groups: they are everybody's
    Worker.clean_registries         forgets lost workers of this queue only
    Worker.should_run_maintenance_tasks  always: what is due is decided there
    Worker.subscribe, unsubscribe   nothing: a run is canceled where it is recorded, not by a message to its worker
    Worker._install_signal_handlers SIGTERM drains within the grace period, SIGQUIT ends the run, SIGUSR1 retires
    Worker._set_ip_address          none: RQ reads it from the list of everybody's connections
    Worker.dequeue_timeout          one second: open runs are looked after in between
    Worker.get_heartbeat_ttl        a minute: a job counts as lost soon after its worker is
    BaseDeathPenalty.setup_death_penalty, cancel_death_penalty  nothing: a run has its own timeout, which ends the tool

Extended, with RQ's own called in the middle:

    Worker.__init__                 exactly one queue: with two, a worker killed between taking and starting loses a job
    Worker.heartbeat                for ten seconds at most, and in one round trip: the count of workers is to be true
    Worker.execute_job              asks ahead for the run's environment; when stopping, waits for no queue
    Worker.handle_execution_ended   ends the heartbeat first, and waits for no server when stopping
    Worker.teardown                 does not wait for a server that is away
    Queue.lmove                     passes over ids and lists that are none; where workers differ, has one more list
"""
