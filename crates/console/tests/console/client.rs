//! A client of HTTP that sees every byte: what browsers do by themselves is done here by hand.

use std::collections::HashMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use halcyon::Database;
use halcyon_console::{Console, ConsoleConfig};
use halcyon_server::{Server, ServerConfig, serve};
use serde_json::{Value as Json, json};

/// A server with a console.
pub struct Both {
    pub database: Database,
    pub console: Console,
    // Dropped behind the console, which asks for logins there.
    _server: Server,
}

impl Both {
    /// On loopback, without passwords.
    pub fn start() -> Self {
        Both::with(Database::in_memory(), ConsoleConfig::default())
    }

    pub fn with(database: Database, config: ConsoleConfig) -> Self {
        let listen = "127.0.0.1:0".parse().unwrap();
        let server =
            serve(database.clone(), ServerConfig { listen, ..ServerConfig::default() }).unwrap();
        let console = Console::listen(ConsoleConfig { listen, ..config }).unwrap();
        console.open(database.clone(), server.logins()).unwrap();
        Both { database, console, _server: server }
    }

    pub fn sql(&self, text: &str) {
        self.database.session().batch(text).unwrap();
    }

    /// A browser that has logged in.
    pub fn browser(&self, role: &str, password: &str) -> Browser {
        let mut browser = Browser::new(self.console.address());
        let answer = browser.log_in(role, password);
        assert_eq!(answer.status, 200, "{}", answer.text());
        browser
    }
}

/// A browser: keeps the cookie and the page's token.
#[derive(Clone)]
pub struct Browser {
    pub address: SocketAddr,
    pub cookie: Option<String>,
    pub token: Option<String>,
}

/// An answer.
#[derive(Debug)]
pub struct Answer {
    pub status: u16,
    pub headers: HashMap<String, String>,
    pub body: Vec<u8>,
}

impl Answer {
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    pub fn json(&self) -> Json {
        serde_json::from_slice(&self.body).unwrap_or_else(|_| panic!("no JSON: {}", self.text()))
    }

    pub fn header(&self, name: &str) -> &str {
        self.headers.get(name).map_or("", String::as_str)
    }
}

impl Browser {
    pub fn new(address: SocketAddr) -> Self {
        Browser { address, cookie: None, token: None }
    }

    pub fn get(&self, path: &str) -> Answer {
        self.send("GET", path, &[], b"")
    }

    /// Sends JSON as a page of this server does.
    pub fn post(&self, path: &str, body: &Json) -> Answer {
        let origin = format!("http://{}", self.address);
        let mut headers = vec![("content-type", "application/json"), ("origin", origin.as_str())];
        headers.extend(self.token.as_deref().map(|token| ("x-halcyon-token", token)));
        self.send("POST", path, &headers, body.to_string().as_bytes())
    }

    pub fn log_in(&mut self, role: &str, password: &str) -> Answer {
        let answer = self.post("/api/login", &json!({ "role": role, "password": password }));
        if answer.status == 200 {
            let cookie = answer.header("set-cookie").split(';').next().unwrap().to_owned();
            self.cookie = Some(cookie);
            self.token = Some(answer.json()["token"].as_str().unwrap().to_owned());
        }
        answer
    }

    pub fn run(&self, tab: &str, sql: &str) -> Json {
        let answer = self.post("/api/run", &json!({ "tab": tab, "sql": sql }));
        assert_eq!(answer.status, 200, "{}", answer.text());
        answer.json()
    }

    /// The first value of the last statement.
    pub fn value(&self, tab: &str, sql: &str) -> Json {
        let told = self.run(tab, sql);
        assert_eq!(told["error"], Json::Null, "{told}");
        told["results"].as_array().unwrap().last().unwrap()["rows"][0][0].clone()
    }

    pub fn send(&self, method: &str, path: &str, headers: &[(&str, &str)], body: &[u8]) -> Answer {
        let mut stream = self.ask(method, path, headers, body);
        let (status, headers) = head(&mut stream);
        let mut body = Vec::new();
        match headers.get("content-length") {
            Some(length) => {
                body.resize(length.parse().unwrap(), 0);
                stream.read_exact(&mut body).unwrap();
            }
            None if status == 304 => {}
            None => while chunk(&mut stream, &mut body) {},
        }
        Answer { status, headers, body }
    }

    /// Opens a stream of events.
    pub fn events(&self, path: &str) -> Events {
        let mut stream = self.ask("GET", path, &[], b"");
        let (status, headers) = head(&mut stream);
        assert_eq!(status, 200, "{path}");
        assert_eq!(headers["content-type"], "text/event-stream");
        Events { stream, text: Vec::new() }
    }

    fn ask(
        &self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: &[u8],
    ) -> BufReader<TcpStream> {
        let mut stream = TcpStream::connect(self.address).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
        let mut text = format!("{method} {path} HTTP/1.1\r\n");
        if !headers.iter().any(|(name, _)| *name == "host") {
            text += &format!("host: {}\r\n", self.address);
        }
        if let Some(cookie) = &self.cookie {
            text += &format!("cookie: other=1; {cookie}\r\n");
        }
        for (name, value) in headers {
            text += &format!("{name}: {value}\r\n");
        }
        text += &format!("content-length: {}\r\n\r\n", body.len());
        stream.write_all(text.as_bytes()).unwrap();
        // A server that refuses a body does not read it.
        let _ = stream.write_all(body);
        BufReader::new(stream)
    }
}

/// Status and headers.
fn head(stream: &mut BufReader<TcpStream>) -> (u16, HashMap<String, String>) {
    let mut line = String::new();
    stream.read_line(&mut line).unwrap();
    let status = line.split(' ').nth(1).unwrap_or_else(|| panic!("{line:?}")).parse().unwrap();
    let mut headers = HashMap::new();
    loop {
        line.clear();
        stream.read_line(&mut line).unwrap();
        let Some((name, value)) = line.trim_end().split_once(": ") else { break };
        headers.insert(name.to_lowercase(), value.to_owned());
    }
    (status, headers)
}

/// Reads a chunk of a body without a length; false behind the last, and if the server ends.
fn chunk(stream: &mut BufReader<TcpStream>, body: &mut Vec<u8>) -> bool {
    let mut line = String::new();
    if stream.read_line(&mut line).unwrap_or(0) == 0 {
        return false;
    }
    let size = usize::from_str_radix(line.trim(), 16).unwrap_or(0);
    let mut bytes = vec![0; size + 2];
    if stream.read_exact(&mut bytes).is_err() {
        return false;
    }
    body.extend_from_slice(&bytes[..size]);
    size > 0
}

/// A stream of events.
pub struct Events {
    stream: BufReader<TcpStream>,
    text: Vec<u8>,
}

impl Events {
    /// The next event: its name and its data. `None` once the stream has ended.
    pub fn next(&mut self) -> Option<(String, Json)> {
        loop {
            let end = self.text.windows(2).position(|pair| pair == b"\n\n");
            if let Some(end) = end {
                let event: Vec<u8> = self.text.drain(..end + 2).collect();
                let event = String::from_utf8(event).unwrap();
                let (name, data) = event.trim_end().split_once("\ndata: ").unwrap();
                let name = name.strip_prefix("event: ").unwrap().to_owned();
                return Some((name, serde_json::from_str(data).unwrap()));
            }
            if !chunk(&mut self.stream, &mut self.text) {
                return None;
            }
        }
    }

    /// The next event of a name.
    pub fn named(&mut self, name: &str) -> Json {
        loop {
            let (found, data) = self.next().expect("the stream goes on");
            if found == name {
                return data;
            }
        }
    }
}

/// Waits until something holds.
pub fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(20);
    while !holds() {
        assert!(Instant::now() < deadline, "{what} did not come");
        std::thread::sleep(Duration::from_millis(20));
    }
}
