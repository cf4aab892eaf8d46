package config

// removedProperties are not Kafka's any more, or were never in its table, but real
// files and compose files carry them. They are not shown by DescribeConfigs.
var removedProperties = []Property{
	{Name: "zookeeper.connect", Type: String, Stance: Accepted, Internal: true, Doc: "Address of ZooKeeper, which neither Kafka 4 nor kcoord has."},
	{Name: "zookeeper.connection.timeout.ms", Type: Int, Null: true, Stance: Accepted, Internal: true, Doc: "Setting of ZooKeeper, which neither Kafka 4 nor kcoord has."},
	{Name: "zookeeper.session.timeout.ms", Type: Int, Default: "18000", Stance: Accepted, Internal: true, Doc: "Setting of ZooKeeper, which neither Kafka 4 nor kcoord has."},
	{Name: "zookeeper.sync.time.ms", Type: Int, Default: "2000", Stance: Accepted, Internal: true, Doc: "Setting of ZooKeeper, which neither Kafka 4 nor kcoord has."},
	{Name: "zookeeper.max.in.flight.requests", Type: Int, Default: "10", Stance: Accepted, Internal: true, Doc: "Setting of ZooKeeper, which neither Kafka 4 nor kcoord has."},
	{Name: "zookeeper.set.acl", Type: Boolean, Default: "false", Stance: Accepted, Internal: true, Doc: "Setting of ZooKeeper, which neither Kafka 4 nor kcoord has."},
	{Name: "zookeeper.metadata.migration.enable", Type: Boolean, Default: "false", Stance: Accepted, Internal: true, Doc: "Setting of ZooKeeper, which neither Kafka 4 nor kcoord has."},
	{Name: "broker.id.generation.enable", Type: Boolean, Default: "true", Stance: Accepted, Internal: true, Doc: "Whether ZooKeeper gives out broker ids."},
	{Name: "reserved.broker.max.id", Type: Int, Default: "1000", Stance: Accepted, Internal: true, Doc: "Highest broker id that a person may choose."},
	{Name: "inter.broker.protocol.version", Type: String, Stance: Accepted, Internal: true, Doc: "Version that brokers speak to each other; there is one broker."},
	{Name: "log.message.format.version", Type: String, Stance: Accepted, Internal: true, Doc: "Format of stored records; there is one."},
	{Name: "log.message.downconversion.enable", Type: Boolean, Default: "true", Stance: Accepted, Internal: true, Doc: "Whether records are converted for old clients; such clients are not served."},
	{Name: "log.message.timestamp.difference.max.ms", Type: Long, Default: "9223372036854775807", Stance: Accepted, Internal: true, Doc: "Older form of log.message.timestamp.before.max.ms and log.message.timestamp.after.max.ms."},
	{Name: "offsets.commit.required.acks", Type: Short, Default: "-1", Stance: Accepted, Internal: true, Doc: "Replicas that must have a commit before it is answered; there is one."},
	{Name: "control.plane.listener.name", Type: String, Null: true, Stance: Accepted, Internal: true, Doc: "Listener for the controller's requests; there is no separate controller."},
	{Name: "auto.include.jmx.reporter", Type: Boolean, Default: "true", Stance: Accepted, Internal: true, Doc: "Whether metrics go to JMX; kcoord serves them over HTTP."},
	{Name: "port", Type: Int, Null: true, Stance: Refused, Internal: true, Doc: "set listeners."},
	{Name: "host.name", Type: String, Stance: Refused, Internal: true, Doc: "set listeners."},
	{Name: "advertised.host.name", Type: String, Stance: Refused, Internal: true, Doc: "set advertised.listeners."},
	{Name: "advertised.port", Type: Int, Null: true, Stance: Refused, Internal: true, Doc: "set advertised.listeners."},
	{Name: "super.users", Type: String, Stance: Accepted, Internal: true, Doc: "Users whom the authorizer lets do everything; there is no authorization."},
	{Name: "allow.everyone.if.no.acl.found", Type: Boolean, Default: "true", Stance: Refused, Internal: true, Doc: "there is no authorization, everybody is allowed everything."},
}

// prefixes stand for all properties whose names begin with theirs.
var prefixes = []Property{
	{Name: "confluent.", Type: String, Stance: Accepted, Internal: true, Doc: "Setting of Confluent's additions to Kafka."},
	{Name: "listener.name.", Type: String, Stance: Accepted, Internal: true, Doc: "Setting of one listener's TLS or SASL, which are refused until kcoord has them."},
}
