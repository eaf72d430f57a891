//! The mistakes that settings can have.

use whimbrel::PublicKey;

/// A mistake that no single line has. [`SettingsError::place`] returns where it is.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SettingsError {
    /// Two channels have one name.
    #[error("two channels are called `{0}`: rename one")]
    SameName(String),
    /// There are too many channels.
    #[error("there are {0} channels, but a broker has at most 64: merge some of them")]
    TooManyChannels(usize),
    /// A channel has a mistake.
    #[error("the channel `{channel}`: {why}")]
    Channel {
        /// Its name.
        channel: String,
        /// The setting at fault, such as `replicas` or `partition.0.from`.
        setting: String,
        /// The mistake.
        why: String,
    },
    /// A peer has neither key nor URL, or a URL without a key.
    #[error(
        "a [[peer]] has no key: write `url = \"whimbrel://KEY@HOST:PORT\"`, or `key = \"…\"` for one that dials this broker"
    )]
    NoKey,
    /// A peer's key and URL differ.
    #[error("the peer {0} has another key in its url: leave `key` out")]
    TwoKeys(PublicKey),
    /// There are other brokers, and no name of the cluster.
    #[error(
        "there are other brokers, but the cluster has no name: write `cluster = \"…\"` under [broker], the same at each"
    )]
    NoCluster,
    /// Two peers have one key.
    #[error("two [[peer]] sections have the key {0}: remove one")]
    SamePeer(PublicKey),
    /// A peer is this broker.
    #[error("the [[peer]] {0} is this broker itself: leave it out of its own file")]
    OwnPeer(PublicKey),
    /// A peer is to get a channel that is not here.
    #[error(
        "the peer {0} lists the channel `{1}`, but no [[channel]] has this name: correct the name, or add the [[channel]]"
    )]
    NoSuchChannel(PublicKey, String),
    /// There are both peers and a NATS cluster.
    #[error("there are both [[peer]] sections and [backbone.nats]: remove one, since NATS needs no peers")]
    NatsAndPeers,
    /// NATS is to carry everything, and no server is named.
    #[error("[backbone.nats] names no server: write `servers = [\"nats://HOST:4222\"]`")]
    NatsNoServers,
    /// The broker cannot tell how NATS is to let it in.
    #[error(
        "[backbone.nats]: a broker authenticates with one of `user` and `password`, `token`, `nkey` or `credentials`, or with none: remove the others"
    )]
    NatsAccess,
    /// A certificate has no key, or a key no certificate.
    #[error("{0} needs both `certificate` and `key`, or neither: write both, or leave both out")]
    HalfCertificate(String),
    /// A bridge has a mistake.
    #[error("the bridge `{bridge}`: {why}")]
    Bridge {
        /// Its name.
        bridge: String,
        /// The setting at fault, such as `url` or `out.0.filter`. Empty: it is the whole section.
        setting: String,
        /// The mistake.
        why: String,
    },
    /// Two bridges have one name.
    #[error("two bridges are called `{0}`: rename one")]
    SameBridge(String),
    /// Two clients have one key.
    #[error("two clients have the key {0}: merge them into one")]
    SameKey(PublicKey),
    /// MQTT is to listen, and nobody is allowed in.
    #[error(
        "[mqtt]: nobody may connect. List users in [[mqtt.user]], or write `anonymous = true` if everyone who reaches {0} may do what \
         [other_clients] lists"
    )]
    MqttNobody(std::net::SocketAddr),
    /// Two users of MQTT have one name.
    #[error("two MQTT users are called `{0}`: rename one")]
    SameUser(String),
    /// Clients of MQTT may connect and then do nothing.
    #[error(
        "[mqtt]: anonymous clients may do what [other_clients] lists, but there is no such section: add one"
    )]
    MqttNothing,
    /// A user of MQTT has no way to show who it is.
    #[error("the MQTT user `{0}` needs a `password` or a `certificate`: write one")]
    MqttNoProof(String),
    /// Two users of MQTT have one certificate.
    #[error("two MQTT users have the certificate `{0}`: merge them into one")]
    MqttSameCertificate(String),
    /// Certificates of clients are wanted, and no authority is named.
    #[error(
        "MQTT clients with certificates need the authority that signs them: set `client_ca` under [mqtt.tls]"
    )]
    MqttNoAuthority,
    /// WebSocket over TLS has no certificate.
    #[error("[mqtt.websocket]: `tls_address` needs a certificate: write [mqtt.tls]")]
    MqttNoCertificate,
    /// There is a certificate, and nobody who could use it.
    #[error(
        "[mqtt.tls] has no address: write `address = \"0.0.0.0:8883\"`, or `tls_address` under [mqtt.websocket]"
    )]
    MqttNoTlsAddress,
    /// The path of MQTT over WebSocket makes no sense.
    #[error("[mqtt.websocket]: `{0}` is not a path: write one such as `/mqtt`")]
    MqttPath(String),
    /// The limit for packets of MQTT makes no sense.
    #[error("[mqtt] max_packet: {0} bytes are not between 1 KiB and 256 MiB: write for example \"1 MiB\"")]
    MqttPacket(u64),
}
