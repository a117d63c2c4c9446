//! The endpoints of a front, and packets that one gives to another.

use std::collections::VecDeque;
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use howdah_sys::readiness::Readable;

use super::forwarded_packet::ForwardedPacket;
use super::offer::Offer;
use super::route::{Route, Routes};
use super::start::{Mailbox, QuicListener, QuicSecret, QuicStart, slot};

/// Packets that wait for an endpoint. Further ones are dropped, and their senders repeat them.
const MOST_FORWARDED: usize = 4096;
/// Forwarded packets that are taken before the event loop turns to its sockets again. A client
/// that sends packets for connections of a former generation makes one of each.
const MOST_AT_ONCE: usize = 64;
/// Bytes of the longest forwarded packet: its head, and the longest packet of UDP. No packet is
/// longer.
const LONGEST_FORWARDED: usize = 1 << 16;

/// The endpoints of a front.
#[derive(Debug)]
pub(crate) struct PacketExchange {
    routes: Routes,
    secret: QuicSecret,
    /// The place of this front's mailbox.
    slot: u8,
    mailboxes: Vec<Mailbox>,
    listeners: Vec<QuicListener>,
    /// By listener, the offer of HTTP/3.
    offers: Vec<Offer>,
    /// By thread, then by listener.
    inboxes: Vec<Vec<PacketInbox>>,
    /// Whether this front reads its sockets. Otherwise another generation does.
    reads: AtomicBool,
}

/// Packets that other threads and generations have for one endpoint.
#[derive(Debug, Default)]
struct PacketInbox(Mutex<InboxState>);

#[derive(Debug, Default)]
struct InboxState {
    forwarded: VecDeque<ForwardedPacket>,
    /// The task of the endpoint.
    reader: Option<Waker>,
}

impl PacketExchange {
    /// The exchange of a front with `threads` threads. It does not read its sockets yet. `None` if
    /// the library refuses the keys.
    pub(crate) fn new(start: QuicStart, threads: usize) -> Option<PacketExchange> {
        let QuicStart { listeners, mailboxes, secret, generation } = start;
        let inboxes = || listeners.iter().map(|_| PacketInbox::default()).collect();
        Some(PacketExchange {
            routes: Routes::new(&secret)?,
            secret,
            slot: slot(generation),
            mailboxes,
            offers: listeners.iter().map(|one| Offer::new(one.address.port())).collect(),
            inboxes: (0..threads).map(|_| inboxes()).collect(),
            listeners,
            reads: AtomicBool::new(false),
        })
    }

    pub(super) fn routes(&self) -> &Routes {
        &self.routes
    }

    pub(super) fn secret(&self) -> &QuicSecret {
        &self.secret
    }

    pub(super) fn listeners(&self) -> &[QuicListener] {
        &self.listeners
    }

    /// The route to an endpoint of this front.
    pub(super) fn route(&self, thread: usize, place: usize) -> Route {
        Route {
            slot: self.slot,
            thread: thread as u16,
            place: place as u8,
        }
    }

    /// Returns the offer of HTTP/3 of the listener with this number in the configuration; `None` if
    /// the listener has no QUIC.
    pub(crate) fn offer(&self, number: usize) -> Option<&Offer> {
        let place = self.listeners.iter().position(|listener| listener.number == number)?;
        self.offers.get(place)
    }

    /// Reads the sockets from now on, or leaves them to another generation.
    pub(crate) fn set_reading(&self, reads: bool) {
        if self.reads.swap(reads, Ordering::Relaxed) != reads {
            for inbox in self.inboxes.iter().flatten() {
                inbox.lock().reader.iter().for_each(Waker::wake_by_ref);
            }
        }
    }

    pub(super) fn is_reading(&self) -> bool {
        self.reads.load(Ordering::Relaxed)
    }

    /// Gives a packet to its endpoint. A packet for none, or for which there is no room, is lost,
    /// as on the network.
    pub(super) fn deliver(&self, route: Route, forwarded: ForwardedPacket) {
        if route.slot != self.slot {
            if let Some(mailbox) = self.mailboxes.get(usize::from(route.slot)) {
                let _ = mailbox.writer.send_now(&forwarded.encode(), &[]);
            }
            return;
        }
        if let Some(inbox) = self.inbox(route) {
            let mut inbox = inbox.lock();
            if inbox.forwarded.len() < MOST_FORWARDED {
                inbox.forwarded.push_back(forwarded);
                inbox.reader.iter().for_each(Waker::wake_by_ref);
            }
        }
    }

    /// Takes the next packet that was given to the endpoint.
    pub(super) fn poll_forwarded(
        &self,
        route: Route,
        context: &mut Context<'_>,
    ) -> Poll<ForwardedPacket> {
        let Some(inbox) = self.inbox(route) else {
            return Poll::Pending;
        };
        let mut inbox = inbox.lock();
        match inbox.forwarded.pop_front() {
            Some(forwarded) => Poll::Ready(forwarded),
            None => {
                if !inbox.reader.as_ref().is_some_and(|own| own.will_wake(context.waker())) {
                    inbox.reader = Some(context.waker().clone());
                }
                Poll::Pending
            }
        }
    }

    fn inbox(&self, route: Route) -> Option<&PacketInbox> {
        self.inboxes.get(usize::from(route.thread))?.get(usize::from(route.place))
    }

    /// Takes what other generations leave in this front's mailbox.
    pub(super) async fn take_mail(self: Arc<Self>) {
        let Some(Mailbox { reader, .. }) = self.mailboxes.get(usize::from(self.slot)) else {
            return;
        };
        let Ok(readable) = Readable::new(reader.as_fd()) else {
            return;
        };
        let mut room = vec![0; LONGEST_FORWARDED];
        while let Ok(mut ready) = readable.ready().await {
            let mut taken = 0_usize;
            while let Ok(received) = reader.receive_now(&mut room) {
                taken += 1;
                if taken.is_multiple_of(MOST_AT_ONCE) {
                    tokio::task::yield_now().await;
                }
                let forwarded = ForwardedPacket::decode(&room[..received.length]);
                let route = forwarded
                    .as_ref()
                    .and_then(|forwarded| self.routes.of_packet(&forwarded.packet));
                if let (Some(forwarded), Some(route)) = (forwarded, route)
                    && route.slot == self.slot
                {
                    self.deliver(route, forwarded);
                }
            }
            ready.clear_ready();
        }
    }
}

impl PacketInbox {
    fn lock(&self) -> MutexGuard<'_, InboxState> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::quic::SLOTS;
    use howdah_sys::seqpacket::SeqPacket;

    fn forwarded() -> ForwardedPacket {
        ForwardedPacket {
            remote: "192.0.2.1:443".parse().unwrap(),
            local: None,
            congestion: 0,
            packet: b"packet".to_vec(),
        }
    }

    fn listener() -> QuicListener {
        QuicListener {
            number: 3,
            address: "127.0.0.1:443".parse().unwrap(),
            sockets: Vec::new(),
        }
    }

    fn exchange(generation: u64, mailboxes: Vec<Mailbox>) -> PacketExchange {
        let start = QuicStart {
            listeners: vec![listener()],
            mailboxes,
            secret: QuicSecret::generate().unwrap(),
            generation,
        };
        PacketExchange::new(start, 2).unwrap()
    }

    #[test]
    fn a_packet_goes_to_its_endpoint_and_to_no_other() {
        let exchange = exchange(1, Vec::new());
        let mut context = Context::from_waker(Waker::noop());
        exchange.deliver(exchange.route(1, 0), forwarded());
        assert!(exchange.poll_forwarded(exchange.route(0, 0), &mut context).is_pending());
        let got = exchange.poll_forwarded(exchange.route(1, 0), &mut context);
        assert_eq!(got, Poll::Ready(forwarded()));
        assert!(exchange.poll_forwarded(exchange.route(1, 0), &mut context).is_pending());
        exchange.deliver(exchange.route(9, 9), forwarded());
    }

    #[test]
    fn an_endpoint_that_does_not_read_keeps_a_bounded_number() {
        let exchange = exchange(1, Vec::new());
        (0..MOST_FORWARDED + 9).for_each(|_| exchange.deliver(exchange.route(0, 0), forwarded()));
        assert_eq!(exchange.inboxes[0][0].lock().forwarded.len(), MOST_FORWARDED);
    }

    #[test]
    fn a_packet_for_another_generation_goes_to_its_mailbox() {
        let mailboxes = (0..SLOTS).map(|_| {
            let (reader, writer) = SeqPacket::pair().unwrap();
            Mailbox { reader, writer }
        });
        let exchange = exchange(SLOTS as u64 + 2, mailboxes.collect());
        let former = Route { slot: 1, ..exchange.route(0, 0) };
        exchange.deliver(former, forwarded());
        let mut room = [0; 100];
        let length = exchange.mailboxes[1].reader.receive_now(&mut room).unwrap().length;
        assert_eq!(ForwardedPacket::decode(&room[..length]), Some(forwarded()));
        assert!(exchange.mailboxes[2].reader.receive_now(&mut room).is_err());
        let offer = exchange.offer(3).unwrap();
        assert_eq!(*offer.own(), "h3=\":443\"; ma=86400");
        assert_eq!(*offer.of_port(8443), "h3=\":8443\"; ma=86400");
        assert!(exchange.offer(0).is_none());
    }
}
