//! Programs and servers of the tests of interception.

use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::thread;
use std::time::Duration;

use socket2::{Domain, Socket, Type};

use crate::networks::{FAR, Net, Networks, PATIENCE};

/// Bytes that differ from place to place.
pub(crate) fn payload(length: usize) -> Vec<u8> {
    (0..length as u64).map(|at| (at.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 56) as u8).collect()
}

pub(crate) fn read_to_end(mut tcp: &TcpStream) -> Vec<u8> {
    let mut bytes = Vec::new();
    tcp.read_to_end(&mut bytes).unwrap();
    bytes
}

/// A socket for a connection to this address.
pub(crate) fn stream_to(address: SocketAddr) -> Socket {
    Socket::new(Domain::for_address(address), Type::STREAM, None).unwrap()
}

pub(crate) fn dial(address: &str) -> Result<TcpStream, ErrorKind> {
    let address = address.parse().unwrap();
    connect(stream_to(address), address)
}

/// Connects as most programs do: the call waits, and the kernel returns the error from it. A call that does not wait asks
/// the socket for the error later, and there was none once.
pub(crate) fn connect(socket: Socket, address: SocketAddr) -> Result<TcpStream, ErrorKind> {
    // It bounds the wait of `connect`, too.
    socket.set_write_timeout(Some(PATIENCE)).unwrap();
    socket.connect(&address.into()).map_err(|error| {
        // A kind is less than the error: a test that fails shows what it was.
        eprintln!("{address}: {error:?}");
        error.kind()
    })?;
    socket.set_write_timeout(None).unwrap();
    socket.set_read_timeout(Some(PATIENCE)).unwrap();
    Ok(socket.into())
}

/// A program in `net` sends to a server at `address` behind the far proxy, ends, and reads the answer to its end.
pub(crate) fn exchange(networks: &Networks, net: &Net, address: &str) {
    let sent = payload(2_000_000);
    let listener = networks.far.run(|| TcpListener::bind(address).unwrap());
    let port = listener.local_addr().unwrap().port();
    let wanted = sent.clone();
    let server = thread::spawn(move || {
        let (mut tcp, from) = listener.accept().unwrap();
        tcp.set_read_timeout(Some(PATIENCE)).unwrap();
        tcp.write_all(&wanted).unwrap();
        // The program has ended its direction, and still reads.
        assert!(read_to_end(&tcp) == wanted, "what the server read");
        tcp.write_all(b"bye").unwrap();
        from
    });
    let to = SocketAddr::new(address.parse::<SocketAddr>().unwrap().ip(), port).to_string();
    net.run(|| {
        let mut tcp = dial(&to).unwrap();
        let reading = {
            let tcp = tcp.try_clone().unwrap();
            thread::spawn(move || read_to_end(&tcp))
        };
        tcp.write_all(&sent).unwrap();
        tcp.shutdown(Shutdown::Write).unwrap();
        assert!(reading.join().unwrap() == [&sent[..], b"bye"].concat(), "what the program read");
    });
    let from = server.join().unwrap();
    assert!(FAR.contains(&&*from.ip().to_string()), "the far proxy connected, not the program: {from}");
}

/// Does something again if a signal came in between: a socket with patience is not called again by the system.
pub(crate) fn again<T>(mut call: impl FnMut() -> std::io::Result<T>) -> std::io::Result<T> {
    loop {
        match call() {
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            done => return done,
        }
    }
}

/// A UDP socket with patience.
pub(crate) fn udp(address: &str) -> UdpSocket {
    let socket = UdpSocket::bind(address).unwrap();
    socket.set_read_timeout(Some(PATIENCE)).unwrap();
    socket
}

/// A program in `net` talks to a server behind the far proxy, and somebody else there answers, too.
pub(crate) fn talk(networks: &Networks, net: &Net, [server, third]: [&str; 2]) {
    let [server, third] = [server, third].map(|address| networks.far.run(|| udp(address)));
    let any = if server.local_addr().unwrap().is_ipv4() { "0.0.0.0:0" } else { "[::]:0" };
    let program = net.run(|| udp(any));
    let mut buffer = vec![0; 70_000];
    for length in [0, 1, 1_400, 20_000, 60_000] {
        let sent = payload(length);
        program.send_to(&sent, server.local_addr().unwrap()).unwrap();
        let (got, from) = again(|| server.recv_from(&mut buffer)).unwrap();
        assert!(buffer[..got] == sent, "{length} bytes to the server");
        for answering in [&server, &third] {
            answering.send_to(&sent, from).unwrap();
            let (got, source) = again(|| program.recv_from(&mut buffer)).unwrap();
            assert!(buffer[..got] == sent, "{length} bytes back");
            assert_eq!(source, answering.local_addr().unwrap(), "whose answer it is");
        }
    }
    // Who has answered can be talked to: what came from it is no reason to send past the proxy.
    program.send_to(b"you", third.local_addr().unwrap()).unwrap();
    let (got, from) = again(|| third.recv_from(&mut buffer)).unwrap();
    assert_eq!(got, 3);
    assert!(FAR.contains(&&*from.ip().to_string()) || from.ip().to_string() == "10.2.0.2", "{from}");
}

/// A program sends a datagram until the server has it. Returns the address that the server sees.
pub(crate) fn asks(program: &UdpSocket, server: &UdpSocket) -> std::net::SocketAddr {
    let mut buffer = [0; 100];
    server.set_read_timeout(Some(Duration::from_millis(200))).unwrap();
    // A session that is on its way loses datagrams.
    let seen = (0..300).find_map(|_| {
        program.send_to(b"question", server.local_addr().unwrap()).unwrap();
        server.recv_from(&mut buffer).ok()
    });
    let (_, from) = seen.expect("the datagram arrives");
    while server.recv_from(&mut buffer).is_ok() {}
    server.send_to(b"answer", from).unwrap();
    let (length, source) = again(|| program.recv_from(&mut buffer)).unwrap();
    assert_eq!((&buffer[..length], source), (&b"answer"[..], server.local_addr().unwrap()));
    from
}
