//! What reaches a session from outside its statements, and what functions within a statement ask it to
//! do: notifications, the wish that it end, settings.
//!
//! Functions (`set_config`, `pg_notify`) run on threads of the executor, which may not touch the session.
//! They leave their wishes here, and the session carries them out when the statement has ended.
//!
//! Words: a *wish* of the transaction is LISTEN, UNLISTEN or NOTIFY, which count when it commits; *mail*
//! is what others have notified this session of.

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use halcyon_sql::error::{Result, SqlError, SqlState};
use halcyon_txn::CancelToken;
use parking_lot::Mutex;

/// Longest payload of a notification, in bytes; PostgreSQL's.
const PAYLOAD_BYTES_MAX: usize = 7_999;

/// Longest name of a channel, in bytes; PostgreSQL's.
const CHANNEL_BYTES_MAX: usize = 63;

/// What a session that listens on a channel is told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Notification {
    /// The session that notified.
    pub session: u32,
    /// The channel.
    pub channel: String,
    /// What it said; may be empty.
    pub payload: String,
}

/// LISTEN, UNLISTEN or NOTIFY of a transaction that has not ended.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Wish {
    Listen(String),
    /// Without a channel: all of them.
    Unlisten(Option<String>),
    Notify {
        channel: String,
        payload: String,
    },
}

/// A setting that a function of a statement has changed.
pub(crate) struct SettingWish {
    pub name: String,
    pub value: String,
    /// Until the transaction ends.
    pub local: bool,
}

/// Called when mail has come or the session is to end, on whatever thread caused it.
pub type Waker = Arc<dyn Fn() + Send + Sync>;

/// The letter box of a session.
#[derive(Default)]
pub(crate) struct Signals {
    /// Ends the session's running statement.
    pub cancel: CancelToken,
    is_ending: AtomicBool,
    /// Whether `wishes` or `settings` may hold something: looked at after every statement.
    has_wishes: AtomicBool,
    wishes: Mutex<Vec<Wish>>,
    settings: Mutex<Vec<SettingWish>>,
    mail: Mutex<VecDeque<Notification>>,
    waker: Mutex<Option<Waker>>,
}

impl Signals {
    /// The letter box of a session whose statements end by `cancel`.
    pub fn new(cancel: CancelToken) -> Self {
        Signals { cancel, ..Signals::default() }
    }

    /// Ends the session: its statement now, the session when its owner looks.
    pub fn end(&self) {
        self.is_ending.store(true, Ordering::Release);
        self.cancel.cancel();
        self.wake();
    }

    /// Whether somebody has asked for the session's end.
    pub fn is_ending(&self) -> bool {
        self.is_ending.load(Ordering::Acquire)
    }

    /// Says whom to call when something has come.
    pub fn set_waker(&self, waker: Waker) {
        *self.waker.lock() = Some(waker);
    }

    fn wake(&self) {
        let waker = self.waker.lock().clone();
        if let Some(waker) = waker {
            waker();
        }
    }

    /// Notes a wish of the transaction. Errors: 22023 for a channel or payload that is too long.
    pub fn wish(&self, wish: Wish) -> Result<()> {
        if let Wish::Listen(channel) | Wish::Notify { channel, .. } = &wish {
            check_channel(channel)?;
        }
        if let Wish::Notify { payload, .. } = &wish
            && payload.len() > PAYLOAD_BYTES_MAX
        {
            return Err(invalid("payload string too long"));
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

    /// Whether something may have been wished for. One load.
    #[inline]
    pub fn has_wishes(&self) -> bool {
        self.has_wishes.load(Ordering::Acquire)
    }

    /// Settings to be changed, in order.
    pub fn take_settings(&self) -> Vec<SettingWish> {
        std::mem::take(&mut self.settings.lock())
    }

    /// How many wishes the transaction has so far.
    pub fn wish_count(&self) -> usize {
        match self.has_wishes() {
            true => self.wishes.lock().len(),
            false => 0,
        }
    }

    /// Drops the wishes behind the first `count`: what followed a savepoint is undone.
    pub fn forget_wishes(&self, count: usize) {
        if self.has_wishes() {
            self.wishes.lock().truncate(count);
            if count == 0 {
                self.has_wishes.store(!self.settings.lock().is_empty(), Ordering::Release);
            }
        }
    }

    /// The wishes of a transaction that commits.
    fn take_wishes(&self) -> Vec<Wish> {
        let wishes = std::mem::take(&mut *self.wishes.lock());
        self.has_wishes.store(!self.settings.lock().is_empty(), Ordering::Release);
        wishes
    }

    fn deliver(&self, notification: Notification) {
        self.mail.lock().push_back(notification);
        self.wake();
    }

    /// What has come since the last call.
    pub fn take_mail(&self) -> Vec<Notification> {
        self.mail.lock().drain(..).collect()
    }
}

/// Who listens to what, in the whole database.
#[derive(Default)]
pub(crate) struct Channels {
    listeners: Mutex<HashMap<String, HashMap<u32, Arc<Signals>>>>,
}

impl Channels {
    /// Carries out what the transaction of a session that has committed wished for. Of equal
    /// notifications of one transaction one is sent, as by PostgreSQL.
    pub fn carry_out(&self, session: u32, signals: &Arc<Signals>) {
        if !signals.has_wishes() {
            return;
        }
        let wishes = signals.take_wishes();
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
        listeners.retain(|_, sessions| !sessions.is_empty());
    }

    /// Forgets a session that has ended, or that listens no more.
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
