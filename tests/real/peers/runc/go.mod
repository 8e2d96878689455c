// A runc for machines whose root lacks CAP_SYS_RESOURCE.
module shoal.dev/peers/runc

go 1.26.0
