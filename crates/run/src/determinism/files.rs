//! `getdents64` with the entries of a directory in an order that truecount chooses: `readdir(3)` then gives the same order
//! on every file system, whenever the files were made.
//!
//! truecount takes a copy of the caller's descriptor (`pidfd_getfd(2)`: the same open file, with the same place in it),
//! reads the directory to its end, orders the entries, writes those that follow into the caller's memory and moves the place
//! behind them. A directory that changes while it is read is answered as it was at its beginning, which POSIX allows
//! (`readdir`). Where any of that fails, the kernel does the call as ever.
//!
//! Reading may wait for a program that itself waits for truecount (a file system in user space that is part of the
//! measured program), so it is done by threads of its own.

use std::collections::VecDeque;
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd as _, OwnedFd, RawFd};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};

use super::descriptor::copy_of;
use super::dirents::{Form, Listing, Order};
use super::notification::{Notification, Response, Trouble, still_valid};

/// The numbers of the calls that are answered.
pub(super) const CALLS: [Option<libc::c_long>; 2] = [Some(libc::SYS_getdents64), OLD];
#[cfg(target_arch = "x86_64")]
const OLD: Option<libc::c_long> = Some(libc::SYS_getdents);
/// Architectures after x86 have the new call only.
#[cfg(not(target_arch = "x86_64"))]
const OLD: Option<libc::c_long> = None;

/// Whether the call is one of [`CALLS`].
pub(super) fn is_mine(notification: &Notification) -> bool {
    CALLS.contains(&Some(libc::c_long::from(notification.data.nr)))
}

/// Bytes read at once, as by glibc.
const PIECE: usize = 32 << 10;
/// The largest directory that is ordered as a whole, bytes: some 400,000 entries.
const WHOLE: usize = 16 << 20;
/// Directories that are being read: how many are kept, and their memory.
const KEPT: usize = 64;
const KEPT_BYTES: usize = 64 << 20;
/// Threads that read: more than file systems in user space lie one upon the other.
const THREADS: usize = 16;

/// Who reads a directory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Reader {
    thread: u32,
    fd: RawFd,
    device: u64,
    inode: u64,
    form: Form,
}

/// A directory that is being read.
struct OpenDirectory {
    reader: Reader,
    /// `None` where it is not available as a whole: not to be tried again at every call.
    listing: Option<Listing>,
    /// The entry that follows.
    next: usize,
}

impl OpenDirectory {
    fn size(&self) -> usize {
        self.listing.as_ref().map_or(0, Listing::size)
    }
}

/// What the threads share.
struct Shared {
    listener: Arc<OwnedFd>,
    order: Order,
    calls: Mutex<Receiver<Notification>>,
    /// Calls that wait or are being answered.
    busy: AtomicUsize,
    kept: Mutex<VecDeque<OpenDirectory>>,
    trouble: Arc<Mutex<Trouble>>,
}

/// The threads that answer.
pub(super) struct Files {
    shared: Arc<Shared>,
    send: Sender<Notification>,
    threads: usize,
}

impl Files {
    pub(super) fn new(listener: Arc<OwnedFd>, order: Order, trouble: Arc<Mutex<Trouble>>) -> Self {
        let (send, calls) = channel();
        Self {
            shared: Arc::new(Shared {
                listener,
                order,
                calls: Mutex::new(calls),
                busy: AtomicUsize::new(0),
                kept: Mutex::default(),
                trouble,
            }),
            send,
            threads: 0,
        }
    }

    /// Has a call answered. Threads are made as they are needed; they end when `self` does, and are not waited for: one
    /// may hang in a file system.
    pub(super) fn answer(&mut self, notification: Notification) {
        let busy = self.shared.busy.fetch_add(1, Ordering::AcqRel);
        if busy >= self.threads && self.threads < THREADS {
            let shared = Arc::clone(&self.shared);
            let made = std::thread::Builder::new().spawn(move || shared.serve());
            self.threads = self.threads.saturating_add(usize::from(made.is_ok()));
        }
        if self.threads == 0 {
            Response::go_on(&notification).send(&self.shared.listener);
        } else {
            // The receiver lives as long as `self`.
            let _ = self.send.send(notification);
        }
    }
}

impl Shared {
    fn serve(&self) {
        loop {
            let Ok(Ok(notification)) = self.calls.lock().map(|calls| calls.recv()) else {
                return;
            };
            self.answer(&notification);
        }
    }

    fn answer(&self, notification: &Notification) {
        match self.answered(notification) {
            Ok(()) => {}
            Err(trouble) => {
                if let (Some(error), Ok(mut all)) = (trouble, self.trouble.lock()) {
                    all.directories.add(&error);
                }
                self.reply(&Response::go_on(notification));
            }
        }
    }

    /// The one answer to a call. This thread is as good as free when the caller goes on: another one would take a process
    /// number, in some runs and not in others.
    fn reply(&self, response: &Response) -> bool {
        self.busy.fetch_sub(1, Ordering::AcqRel);
        response.send(&self.listener)
    }

    /// Answers; the error says that the kernel has to, and why where that is worth telling.
    fn answered(&self, notification: &Notification) -> Result<(), Option<io::Error>> {
        let [fd, buffer, room, ..] = notification.data.args;
        // The kernel takes 32 bits of both.
        let (fd, room) = (fd as u32 as RawFd, room as u32);
        let room = usize::try_from(room).unwrap_or(0);
        if fd < 0 || i32::try_from(room).is_err() {
            return Err(None);
        }
        let form = if libc::c_long::from(notification.data.nr) == libc::SYS_getdents64 {
            Form::New
        } else {
            Form::Old
        };
        let file = match copy_of(notification.pid.cast_signed(), fd) {
            Ok(file) => file,
            // The kernel says the same.
            Err(error) if error.raw_os_error() == Some(libc::EBADF) => return Err(None),
            Err(error) => return Err(Some(error)),
        };
        let Ok(Some((device, inode))) = directory(&file) else {
            return Err(None);
        };
        let place = seek(&file, 0, libc::SEEK_CUR).map_err(|_| None)?;
        let call = Call {
            shared: self,
            notification,
            file: &file,
            buffer,
            room,
            place,
        };
        let reader = Reader {
            thread: notification.pid,
            fd,
            device,
            inode,
            form,
        };
        let mut kept = self.directory(reader, &file, place);
        match &kept.listing {
            Some(listing) if kept.next < listing.len() => {
                kept.next = call.listed(listing, kept.next)?;
                self.keep(kept);
            }
            // At the end: entries made meanwhile.
            Some(_) => call.by_kernel(form)?,
            None => {
                call.by_kernel(form)?;
                self.keep(kept);
            }
        }
        Ok(())
    }

    /// The directory as it was at its beginning, with the entry that follows at `place`.
    fn directory(&self, reader: Reader, file: &OwnedFd, place: i64) -> OpenDirectory {
        let mut known = None;
        if let Ok(mut kept) = self.kept.lock() {
            let at = kept.iter().position(|each| each.reader == reader);
            known = at.and_then(|at| kept.remove(at));
        }
        let mut kept = known.filter(|_| place != 0).unwrap_or_else(|| {
            let listing = whole(file, reader.form, self.order, place);
            let back = seek(file, place, libc::SEEK_SET);
            OpenDirectory {
                reader,
                listing: listing.filter(|_| back.is_ok()),
                next: 0,
            }
        });
        if let Some(listing) = &kept.listing
            && listing.place(kept.next) != Some(place)
        {
            match listing.behind(place) {
                Some(next) => kept.next = next,
                None => kept.listing = None,
            }
        }
        kept
    }

    /// Keeps a directory for the next call, in the place of those that were not read for longest.
    fn keep(&self, one: OpenDirectory) {
        let Ok(mut kept) = self.kept.lock() else {
            return;
        };
        kept.push_back(one);
        let size = |kept: &VecDeque<OpenDirectory>| -> usize {
            kept.iter().map(OpenDirectory::size).sum()
        };
        while kept.len() > KEPT || size(&kept) > KEPT_BYTES {
            kept.pop_front();
        }
    }
}

/// A call that is being answered.
struct Call<'c> {
    shared: &'c Shared,
    notification: &'c Notification,
    file: &'c OwnedFd,
    buffer: u64,
    room: usize,
    /// Where the caller stands.
    place: i64,
}

impl Call<'_> {
    /// Entries from `next` on of a directory that was read as a whole; the entry that follows them.
    fn listed(&self, listing: &Listing, next: usize) -> Result<usize, Option<io::Error>> {
        let Some(part) = listing.part(next, self.room) else {
            // Not even the next entry fits.
            self.send(0, libc::EINVAL);
            return Ok(next);
        };
        self.write(&part.bytes)?;
        seek(self.file, part.place, libc::SEEK_SET).map_err(|_| None)?;
        if self.send(part.bytes.len(), 0) {
            return Ok(part.next);
        }
        self.back();
        Ok(next)
    }

    /// One answer of the kernel, ordered in itself.
    fn by_kernel(&self, form: Form) -> Result<(), Option<io::Error>> {
        let mut bytes = vec![0u8; self.room.min(PIECE)];
        match read(self.file, form, &mut bytes) {
            Ok(length) => {
                bytes.truncate(length);
                let order = match self.shared.order {
                    Order::Shuffled(seed) => Order::Shuffled(seed ^ self.place.cast_unsigned()),
                    Order::Sorted => Order::Sorted,
                };
                let listing = Listing::new(bytes.clone(), form, order);
                if let Some(part) = listing.and_then(|listing| listing.part(0, length)) {
                    bytes = part.bytes;
                }
                if let Err(error) = self.write(&bytes) {
                    self.back();
                    return Err(error);
                }
                if !self.send(length, 0) {
                    self.back();
                }
            }
            Err(error) => {
                self.send(0, error.raw_os_error().unwrap_or(libc::EIO));
            }
        }
        Ok(())
    }

    /// Writes into the caller's memory. The error says that the kernel has to do the call: it knows what is wrong.
    fn write(&self, bytes: &[u8]) -> Result<(), Option<io::Error>> {
        if !still_valid(&self.shared.listener, self.notification) {
            return Err(None);
        }
        let pid = self.notification.pid.cast_signed();
        super::exec::write(pid, self.buffer, bytes).map_err(|_| None)
    }

    /// Whether the caller has got the answer: a signal may have ended its call, which it then makes again.
    fn send(&self, length: usize, errno: i32) -> bool {
        let response = match errno {
            0 => Response::value(self.notification, i64::try_from(length).unwrap_or(0)),
            errno => Response::error(self.notification, errno),
        };
        self.shared.reply(&response)
    }

    /// Puts the place back to where it was.
    fn back(&self) {
        let _ = seek(self.file, self.place, libc::SEEK_SET);
    }
}

/// Device and inode; `None` for what is not a directory.
fn directory(file: &OwnedFd) -> io::Result<Option<(u64, u64)>> {
    let mut stat = MaybeUninit::<libc::stat>::zeroed();
    // SAFETY: a valid place for the result, zeroed before.
    let stat = unsafe {
        if libc::fstat(file.as_raw_fd(), stat.as_mut_ptr()) != 0 {
            return Err(io::Error::last_os_error());
        }
        stat.assume_init()
    };
    Ok((stat.st_mode & libc::S_IFMT == libc::S_IFDIR).then_some((stat.st_dev, stat.st_ino)))
}

fn seek(file: &OwnedFd, place: i64, whence: i32) -> io::Result<i64> {
    // SAFETY: no memory is involved.
    match unsafe { libc::lseek(file.as_raw_fd(), place, whence) } {
        -1 => Err(io::Error::last_os_error()),
        place => Ok(place),
    }
}

/// The call itself.
fn read(file: &OwnedFd, form: Form, bytes: &mut [u8]) -> io::Result<usize> {
    let call = match form {
        Form::New => libc::SYS_getdents64,
        Form::Old => OLD.unwrap_or(libc::SYS_getdents64),
    };
    // SAFETY: the kernel writes at most that many bytes.
    let done = unsafe { libc::syscall(call, file.as_raw_fd(), bytes.as_mut_ptr(), bytes.len()) };
    match usize::try_from(done) {
        Ok(done) if done <= bytes.len() => Ok(done),
        Ok(_) => Err(io::Error::from_raw_os_error(libc::EIO)),
        Err(_) => Err(io::Error::last_os_error()),
    }
}

/// The directory from its beginning to its end, where it has places to come back to and is not too large; the caller stands
/// at `place`.
fn whole(file: &OwnedFd, form: Form, order: Order, place: i64) -> Option<Listing> {
    if place != 0 {
        seek(file, 0, libc::SEEK_SET).ok()?;
    }
    let mut all: Vec<u8> = Vec::new();
    let mut piece = vec![0u8; PIECE];
    loop {
        match read(file, form, &mut piece).ok()? {
            0 => break,
            length => all.extend_from_slice(piece.get(..length)?),
        }
        if all.len() > WHOLE {
            return None;
        }
    }
    Listing::new(all, form, order).filter(Listing::has_places)
}
