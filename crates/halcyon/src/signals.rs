//! Signals to a session from outside its statements, and requests of functions within a statement:
//! notifications, termination, settings.
//!
//! Functions (`set_config`, `pg_notify`) run on threads of the executor, which may not touch the
//! session. They leave their wishes here, and the session carries these out when the statement has
//! ended.
//!
//! Words: a *wish* of the transaction is a LISTEN, UNLISTEN or NOTIFY, which takes effect when the
//! transaction commits; *mail* is the notifications sent to this session.

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use halcyon_sql::error::{Result, SqlError, SqlState};
use halcyon_txn::{BatchEnd, CancelToken, Lsn};
use parking_lot::Mutex;

/// Longest payload of a notification, in bytes; as in PostgreSQL.
const PAYLOAD_BYTES_MAX: usize = 7_999;

/// The most bytes of notifications that wait for those who listen, all together, before no more are taken.
const QUEUE_BYTES_MAX: usize = 64 << 20;
/// What a notification takes beside its texts.
const NOTIFICATION_BYTES: usize = 128;

/// Bytes of the notifications of all sessions that wait to be read.
static QUEUED: AtomicUsize = AtomicUsize::new(0);

/// Longest name of a channel, in bytes; as in PostgreSQL.
const CHANNEL_BYTES_MAX: usize = 63;

/// A notification to a session that listens on a channel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Notification {
    /// The session that sent it.
    pub session: u32,
    /// The channel.
    pub channel: String,
    /// The payload; may be empty.
    pub payload: String,
}

/// A LISTEN, UNLISTEN or NOTIFY of a transaction that has not ended.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Wish {
    Listen(String),
    /// `None`: all channels.
    Unlisten(Option<String>),
    Notify {
        channel: String,
        payload: String,
    },
}

/// A change of a setting by a function within a statement.
pub(crate) struct SettingWish {
    pub name: String,
    pub value: String,
    /// Whether the change lasts only until the transaction ends.
    pub local: bool,
}

/// A function that is called when mail has come or the session is to end, on the thread that caused
/// it.
pub type Waker = Arc<dyn Fn() + Send + Sync>;

/// Notifications to a session that wait to be read; counted among those of all sessions.
#[derive(Default)]
struct Mail(Mutex<VecDeque<Notification>>);

impl Mail {
    fn put(&self, notification: Notification) {
        QUEUED.fetch_add(notification.bytes(), Ordering::Relaxed);
        self.0.lock().push_back(notification);
    }

    fn take(&self) -> Vec<Notification> {
        let mail: Vec<Notification> = std::mem::take(&mut *self.0.lock()).into();
        QUEUED.fetch_sub(mail.iter().map(Notification::bytes).sum(), Ordering::Relaxed);
        mail
    }
}

impl Drop for Mail {
    fn drop(&mut self) {
        self.take();
    }
}

/// The letter box of a session.
#[derive(Default)]
pub(crate) struct Signals {
    /// Ends the session's running statement.
    pub cancel: CancelToken,
    is_ending: AtomicBool,
    /// Whether `wishes` or `settings` may have entries: checked after every statement.
    has_wishes: AtomicBool,
    wishes: Mutex<Vec<Wish>>,
    settings: Mutex<Vec<SettingWish>>,
    mail: Mail,
    waker: Mutex<Option<Waker>>,
}

impl Signals {
    /// Makes the letter box of a session whose statements are cancelled by `cancel`.
    pub fn new(cancel: CancelToken) -> Self {
        Signals { cancel, ..Signals::default() }
    }

    /// Ends the session: its statement at once, the session itself when its owner checks.
    pub fn end(&self) {
        self.is_ending.store(true, Ordering::Release);
        self.cancel.cancel();
        self.wake();
    }

    /// Whether the session has been asked to end.
    pub fn is_ending(&self) -> bool {
        self.is_ending.load(Ordering::Acquire)
    }

    /// Sets the function to call when mail has come or the session is to end.
    pub fn set_waker(&self, waker: Waker) {
        *self.waker.lock() = Some(waker);
    }

    fn wake(&self) {
        let waker = self.waker.lock().clone();
        if let Some(waker) = waker {
            waker();
        }
    }

    /// Notes a wish of the transaction. Errors: 22023 for a channel or payload that is too long; 54000 for a
    /// notification if those that wait to be read are too many.
    pub fn wish(&self, wish: Wish) -> Result<()> {
        if let Wish::Listen(channel) | Wish::Notify { channel, .. } = &wish {
            check_channel(channel)?;
        }
        if let Wish::Notify { payload, .. } = &wish
            && payload.len() > PAYLOAD_BYTES_MAX
        {
            return Err(invalid("payload string too long"));
        }
        if matches!(wish, Wish::Notify { .. }) && QUEUED.load(Ordering::Relaxed) > QUEUE_BYTES_MAX {
            return Err(full_queue());
        }
        self.wishes.lock().push(wish);
        self.has_wishes.store(true, Ordering::Release);
        Ok(())
    }

    /// Notes a setting that the session is to change.
    pub fn wish_setting(&self, wish: SettingWish) {
        self.settings.lock().push(wish);
        self.has_wishes.store(true, Ordering::Release);
    }

    /// Whether there may be wishes. Costs one load.
    #[inline]
    pub fn has_wishes(&self) -> bool {
        self.has_wishes.load(Ordering::Acquire)
    }

    /// Takes the changes of settings, in order.
    pub fn take_settings(&self) -> Vec<SettingWish> {
        std::mem::take(&mut self.settings.lock())
    }

    /// Number of wishes that the transaction has so far.
    pub fn wish_count(&self) -> usize {
        match self.has_wishes() {
            true => self.wishes.lock().len(),
            false => 0,
        }
    }

    /// Drops the wishes behind the first `count`, when a transaction goes back to a savepoint.
    pub fn forget_wishes(&self, count: usize) {
        if self.has_wishes() {
            self.wishes.lock().truncate(count);
            if count == 0 {
                self.has_wishes.store(!self.settings.lock().is_empty(), Ordering::Release);
            }
        }
    }

    /// Takes the wishes of a transaction that commits.
    fn take_wishes(&self) -> Vec<Wish> {
        let wishes = std::mem::take(&mut *self.wishes.lock());
        self.has_wishes.store(!self.settings.lock().is_empty(), Ordering::Release);
        wishes
    }

    /// Takes the mail that has come since the last call.
    pub fn take_mail(&self) -> Vec<Notification> {
        self.mail.take()
    }
}

impl Notification {
    fn bytes(&self) -> usize {
        NOTIFICATION_BYTES + self.channel.len() + self.payload.len()
    }
}

/// 54000: nobody reads the notifications that were sent.
#[cold]
fn full_queue() -> SqlError {
    let message = "too many notifications in the NOTIFY queue";
    SqlError::new(SqlState::PROGRAM_LIMIT_EXCEEDED, message)
        .detail("Sessions that listen have not read those that were sent to them.")
        .hint("End the sessions that listen and do not read, or their open transactions.")
}

/// The channels of a database: who listens, and the notifications of commits that are not durable yet.
///
/// A commit changes who listens, and puts its notifications in line, while it holds its locks
/// ([`Channels::commit`]). So the line has the order of commits. A notification is sent when everything before it in
/// the line was sent and its commit is durable: by the session that has waited for the disk, or by the
/// thread at the end of a batch of the log, where the session has gone. Those who listened at the commit hear of it,
/// unless they have ended that since. What never becomes durable is never sent.
/// Checked by the tests below and by `notifications_wait_for_the_disk_in_the_order_of_commits`.
#[derive(Default)]
pub(crate) struct Channels {
    line: Mutex<Line>,
    /// Copy of the line's length, for looks without the mutex.
    waiting: AtomicUsize,
}

#[derive(Default)]
struct Line {
    listeners: HashMap<String, HashMap<u32, Listener>>,
    /// Notifications of commits, in the order of these.
    outgoing: VecDeque<Outgoing>,
    /// How many commits have had wishes.
    commits: u64,
}

/// A session that listens on a channel.
struct Listener {
    signals: Arc<Signals>,
    /// The number of the commit that made it listen.
    since: u64,
}

/// The notifications of a commit.
struct Outgoing {
    session: u32,
    /// Number of the commit.
    number: u64,
    /// How far the log must be durable; `None` until the commit has returned.
    lsn: Option<Lsn>,
    /// Channels and payloads.
    notifications: Vec<(String, String)>,
    _bytes: Queued,
}

/// Bytes of notifications among those of all sessions that wait.
struct Queued(usize);

impl Queued {
    fn of(notifications: &[(String, String)]) -> Queued {
        let bytes = |(channel, payload): &(String, String)| {
            NOTIFICATION_BYTES + channel.len() + payload.len()
        };
        let bytes = notifications.iter().map(bytes).sum();
        QUEUED.fetch_add(bytes, Ordering::Relaxed);
        Queued(bytes)
    }
}

impl Drop for Queued {
    fn drop(&mut self) {
        QUEUED.fetch_sub(self.0, Ordering::Relaxed);
    }
}

impl Channels {
    /// The channels that a session listens to.
    pub fn of(&self, session: u32) -> Vec<String> {
        let all = &self.line.lock().listeners;
        all.iter().filter(|one| one.1.contains_key(&session)).map(|one| one.0.clone()).collect()
    }

    /// Carries out the wishes of a session's transaction at its commit, whose locks are still held; true if there are
    /// notifications, for which [`Channels::is_behind`] has to follow. Of equal notifications in one transaction only
    /// one is sent, as in PostgreSQL.
    pub fn commit(&self, session: u32, signals: &Arc<Signals>) -> bool {
        let wishes = signals.take_wishes();
        let mut sent = HashSet::new();
        let mut notifications = Vec::new();
        let mut line = self.line.lock();
        line.commits += 1;
        let number = line.commits;
        let listeners = &mut line.listeners;
        for wish in wishes {
            match wish {
                Wish::Listen(channel) => {
                    let sessions = listeners.entry(channel).or_default();
                    let signals = Arc::clone(signals);
                    sessions.entry(session).or_insert(Listener { signals, since: number });
                }
                Wish::Unlisten(Some(channel)) => {
                    if let Some(sessions) = listeners.get_mut(&channel) {
                        sessions.remove(&session);
                        if sessions.is_empty() {
                            listeners.remove(&channel);
                        }
                    }
                }
                Wish::Unlisten(None) => forget(listeners, session),
                Wish::Notify { channel, payload } => {
                    if sent.insert((channel.clone(), payload.clone())) {
                        notifications.push((channel, payload));
                    }
                }
            }
        }
        if notifications.is_empty() {
            return false;
        }
        let bytes = Queued::of(&notifications);
        line.outgoing.push_back(Outgoing {
            session,
            number,
            lsn: None,
            notifications,
            _bytes: bytes,
        });
        self.waiting.store(line.outgoing.len(), Ordering::Relaxed);
        true
    }

    /// Notes how far the log must be durable before the notifications of the session's last commit are sent;
    /// [`Channels::send`] has to follow.
    pub fn is_behind(&self, session: u32, lsn: Lsn) {
        let mut line = self.line.lock();
        let is_own =
            |outgoing: &&mut Outgoing| outgoing.session == session && outgoing.lsn.is_none();
        // A commit that has changed who listens alone has put nothing in line.
        if let Some(outgoing) = line.outgoing.iter_mut().rev().find(is_own) {
            outgoing.lsn = Some(lsn);
        }
    }

    /// Whether notifications may wait. A session sees its own ones.
    pub fn are_waiting(&self) -> bool {
        self.waiting.load(Ordering::Relaxed) > 0
    }

    /// Sends the notifications at the head of the line whose commits are durable, and drops those that will never be.
    pub fn send(&self, log: BatchEnd) {
        let mut told: Vec<Arc<Signals>> = Vec::new();
        let mut line = self.line.lock();
        if log.is_last {
            line.outgoing.retain(|outgoing| outgoing.lsn.is_none_or(|lsn| lsn <= log.durable));
        }
        let is_durable = |outgoing: &Outgoing| outgoing.lsn.is_some_and(|lsn| lsn <= log.durable);
        while line.outgoing.front().is_some_and(is_durable) {
            let outgoing = line.outgoing.pop_front().expect("just looked at");
            let Outgoing { session, number, notifications, _bytes, .. } = outgoing;
            for (channel, payload) in notifications {
                let listeners = line.listeners.get(&channel).into_iter().flat_map(HashMap::values);
                for listener in listeners.filter(|listener| listener.since <= number) {
                    let (channel, payload) = (channel.clone(), payload.clone());
                    listener.signals.mail.put(Notification { session, channel, payload });
                    if !told.iter().any(|known| Arc::ptr_eq(known, &listener.signals)) {
                        told.push(Arc::clone(&listener.signals));
                    }
                }
            }
        }
        self.waiting.store(line.outgoing.len(), Ordering::Relaxed);
        drop(line);
        told.iter().for_each(|signals| signals.wake());
    }

    /// Removes a session that has ended, or that no longer listens. Its own notifications stay in line.
    pub fn forget(&self, session: u32) {
        forget(&mut self.line.lock().listeners, session);
    }
}

fn forget(listeners: &mut HashMap<String, HashMap<u32, Listener>>, session: u32) {
    listeners.values_mut().for_each(|sessions| drop(sessions.remove(&session)));
    listeners.retain(|_, sessions| !sessions.is_empty());
}

fn check_channel(channel: &str) -> Result<()> {
    match channel.len() {
        0 => Err(invalid("channel name cannot be empty")),
        1..=CHANNEL_BYTES_MAX => Ok(()),
        _ => Err(invalid("channel name too long")),
    }
}

fn invalid(message: &str) -> SqlError {
    SqlError::new(SqlState::INVALID_PARAMETER_VALUE, message)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A session, the log at some place, and what is heard.
    fn session(channels: &Channels, number: u32, wishes: &[Wish]) -> Arc<Signals> {
        let signals = Arc::new(Signals::default());
        wish(channels, number, &signals, wishes);
        signals
    }

    fn wish(channels: &Channels, number: u32, signals: &Arc<Signals>, wishes: &[Wish]) -> bool {
        for wish in wishes {
            signals.wish(wish.clone()).expect("few and short");
        }
        channels.commit(number, signals)
    }

    fn notify(payload: &str) -> Wish {
        Wish::Notify { channel: "c".to_owned(), payload: payload.to_owned() }
    }

    fn durable(lsn: u64) -> BatchEnd {
        BatchEnd { durable: Lsn(lsn), is_last: false }
    }

    fn heard(signals: &Signals) -> Vec<String> {
        signals.take_mail().into_iter().map(|notification| notification.payload).collect()
    }

    #[test]
    fn notifications_go_out_once_durable_in_the_order_of_commits() {
        let channels = Channels::default();
        let listen = [Wish::Listen("c".to_owned())];
        let listener = session(&channels, 1, &listen);
        let (first, second) = (Arc::default(), Arc::default());
        assert!(wish(&channels, 2, &first, &[notify("a"), notify("b"), notify("a")]));
        assert!(wish(&channels, 3, &second, &[notify("c")]));
        let late = session(&channels, 4, &listen);
        // The second one's commit returns first, and is durable first.
        channels.is_behind(3, Lsn(10));
        channels.send(durable(10));
        assert!(
            heard(&listener).is_empty() && channels.are_waiting(),
            "the first one's come first"
        );
        channels.is_behind(2, Lsn(20));
        channels.send(durable(19));
        assert!(heard(&listener).is_empty(), "not durable");
        channels.send(durable(20));
        assert_eq!(heard(&listener), ["a", "b", "c"]);
        assert!(heard(&late).is_empty(), "it listens since later");
        assert!(!channels.are_waiting());
    }

    #[test]
    fn what_never_becomes_durable_is_never_sent() {
        let channels = Channels::default();
        let listener = session(&channels, 1, &[Wish::Listen("c".to_owned())]);
        let signals = Arc::default();
        for (lsn, payload) in [(10, "lost"), (0, "of no change")] {
            assert!(wish(&channels, 2, &signals, &[notify(payload)]));
            channels.is_behind(2, Lsn(lsn));
        }
        channels.send(durable(9));
        assert!(heard(&listener).is_empty(), "the first one's come first");
        channels.send(BatchEnd { durable: Lsn(9), is_last: true });
        assert_eq!(heard(&listener), ["of no change"]);
        assert!(!channels.are_waiting());
    }

    #[test]
    fn who_has_ended_listening_hears_nothing() {
        let channels = Channels::default();
        let listen = [Wish::Listen("c".to_owned())];
        let listener = session(&channels, 1, &listen);
        let gone = session(&channels, 2, &listen);
        let own = session(&channels, 3, &[notify("x"), Wish::Listen("c".to_owned())]);
        channels.is_behind(3, Lsn(10));
        channels.forget(2);
        wish(&channels, 1, &listener, &[Wish::Unlisten(None)]);
        wish(&channels, 1, &listener, &listen);
        channels.send(durable(10));
        assert!(heard(&gone).is_empty() && heard(&listener).is_empty());
        assert_eq!(heard(&own), ["x"], "a session hears itself");
    }
}
