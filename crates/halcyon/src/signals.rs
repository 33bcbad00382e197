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
use halcyon_txn::CancelToken;
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

    fn deliver(&self, notification: Notification) {
        self.mail.put(notification);
        self.wake();
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

/// The listeners on all channels of the database.
#[derive(Default)]
pub(crate) struct Channels {
    listeners: Mutex<HashMap<String, HashMap<u32, Arc<Signals>>>>,
}

impl Channels {
    /// Carries out the wishes of a session's transaction that has committed. Of equal notifications
    /// in one transaction only one is sent, as in PostgreSQL.
    pub fn carry_out(&self, session: u32, signals: &Arc<Signals>) {
        if !signals.has_wishes() {
            return;
        }
        let wishes = signals.take_wishes();
        let ends_some = wishes.iter().any(|wish| matches!(wish, Wish::Unlisten(Some(_))));
        let mut sent = HashSet::new();
        let mut listeners = self.listeners.lock();
        for wish in wishes {
            match wish {
                Wish::Listen(channel) => {
                    listeners.entry(channel).or_default().insert(session, Arc::clone(signals));
                }
                Wish::Unlisten(Some(channel)) => {
                    if let Some(sessions) = listeners.get_mut(&channel) {
                        sessions.remove(&session);
                    }
                }
                Wish::Unlisten(None) => forget(&mut listeners, session),
                Wish::Notify { channel, payload } => {
                    if !sent.insert((channel.clone(), payload.clone())) {
                        continue;
                    }
                    let told = listeners.get(&channel).into_iter().flat_map(HashMap::values);
                    for listener in told {
                        let (channel, payload) = (channel.clone(), payload.clone());
                        let notification = Notification { session, channel, payload };
                        listener.deliver(notification);
                    }
                }
            }
        }
        if ends_some {
            listeners.retain(|_, sessions| !sessions.is_empty());
        }
    }

    /// Removes a session that has ended, or that no longer listens.
    pub fn forget(&self, session: u32) {
        forget(&mut self.listeners.lock(), session);
    }
}

fn forget(listeners: &mut HashMap<String, HashMap<u32, Arc<Signals>>>, session: u32) {
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
