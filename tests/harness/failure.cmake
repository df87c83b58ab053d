misfire_test(NAME harness.failure SOURCES failure_test.cpp LINK misfire::harness LABELS unit)
