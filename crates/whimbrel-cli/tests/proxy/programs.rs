//! Programs and servers that know nothing of proxies.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use socket2::{Domain, Socket, Type};

/// Longer than anything takes on a slow machine.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// Connects to a server.
pub(crate) fn dial(address: SocketAddr) -> TcpStream {
    let tcp = TcpStream::connect(address).unwrap();
    tcp.set_read_timeout(Some(PATIENCE)).unwrap();
    tcp
}

/// Serves the next connection in a thread.
pub(crate) fn serve<T: Send + 'static>(
    listener: &TcpListener,
    serve: impl FnOnce(TcpStream) -> T + Send + 'static,
) -> JoinHandle<T> {
    let listener = listener.try_clone().unwrap();
    thread::spawn(move || {
        let (tcp, _) = listener.accept().unwrap();
        tcp.set_read_timeout(Some(PATIENCE)).unwrap();
        serve(tcp)
    })
}

/// Reads to the end.
pub(crate) fn read_to_end(mut tcp: &TcpStream) -> Vec<u8> {
    let mut bytes = Vec::new();
    tcp.read_to_end(&mut bytes).unwrap();
    bytes
}

/// Bytes that differ from place to place.
pub(crate) fn payload(length: usize) -> Vec<u8> {
    (0..length as u64).map(|at| (at.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 56) as u8).collect()
}

/// Reads to the end, then says how much that was.
pub(crate) fn count(tcp: TcpStream) {
    let length = read_to_end(&tcp).len();
    (&tcp).write_all(format!("{length} bytes").as_bytes()).unwrap();
}

/// Fetches the metrics.
pub(crate) fn http(address: SocketAddr) -> String {
    let mut tcp = dial(address);
    tcp.write_all(b"GET /metrics HTTP/1.0\r\n\r\n").unwrap();
    String::from_utf8(read_to_end(&tcp)).unwrap()
}

/// A listener that answers no SYN any more: its queue is full of the connections that are returned, too.
pub(crate) fn deaf() -> (Socket, Vec<Socket>, SocketAddr) {
    let listener = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
    listener.bind(&SocketAddr::from(([127, 0, 0, 1], 0)).into()).unwrap();
    listener.listen(0).unwrap();
    let address = listener.local_addr().unwrap();
    let mut queue = Vec::new();
    while queue.len() < 50 {
        let waiting = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
        let connected = waiting.connect_timeout(&address, Duration::from_millis(300)).is_ok();
        queue.push(waiting);
        if !connected {
            break;
        }
    }
    (listener, queue, address.as_socket().unwrap())
}
