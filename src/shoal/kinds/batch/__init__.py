"""batch/v1: Job and CronJob, and cron schedules."""
