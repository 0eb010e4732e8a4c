//! Inventory, bank and carrier on 127.0.0.1:7201, one request at a time: as much HTTP as the example
//! needs.

use order::Ledger;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};

fn main() -> std::io::Result<()> {
    let listener = TcpListener::bind("127.0.0.1:7201")?;
    println!(
        "inventory, bank and carrier listen on http://{}",
        listener.local_addr()?
    );
    let mut ledger = Ledger::default();
    for connection in listener.incoming() {
        if let Err(error) = serve(&mut ledger, connection?) {
            eprintln!("a request broke off: {error}");
        }
    }
    Ok(())
}

fn serve(ledger: &mut Ledger, mut connection: TcpStream) -> std::io::Result<()> {
    let mut reader = BufReader::new(connection.try_clone()?);
    let mut first = String::new();
    reader.read_line(&mut first)?;
    let (mut key, mut length) = (String::new(), 0);
    loop {
        let mut line = String::new();
        reader.read_line(&mut line)?;
        let Some((name, value)) = line.trim().split_once(':') else {
            break;
        };
        match name.to_ascii_lowercase().as_str() {
            "idempotency-key" => value.trim().clone_into(&mut key),
            "content-length" => length = value.trim().parse().unwrap_or(0),
            _ => {}
        }
    }
    std::io::copy(&mut reader.take(length), &mut std::io::sink())?;
    let mut words = first.split_whitespace();
    let (method, target) = (
        words.next().unwrap_or_default(),
        words.next().unwrap_or_default(),
    );
    let (service, path) = target
        .trim_start_matches('/')
        .split_once('/')
        .unwrap_or((target, ""));
    let (status, body) = ledger.answer(service, method, path, &key);
    println!("{status} {method} {target} {key}");
    let body = body.to_string();
    write!(
        connection,
        "HTTP/1.1 {status} -\r\nContent-Type: application/json\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{body}",
        body.len()
    )
}
