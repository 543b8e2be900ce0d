"""Settings of Spark sessions that live for a few minutes: half the CPU of a JVM that compiles for hours of work."""

QUICK_JAVA = {
    # the first of two compilers, which takes a tenth of the time; no threads for garbage
    "driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
    # no Java source for each small query, to compile at run time: a third of the CPU of a query
    "sql.codegen.wholeStage": False,
    "sql.codegen.factoryMode": "NO_CODEGEN",
}
"""For `sash.spark.session(**QUICK_JAVA)`."""

QUICK_LOCAL = {**QUICK_JAVA, "python.daemon.module": "tests.shared.worker_daemon"}
"""The same for a session on this machine, whose workers are forked with their imports."""
