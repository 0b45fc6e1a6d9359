//! Which server holds which bucket.

use std::sync::Arc;

use arc_swap::ArcSwap;
use tokio::sync::watch;
use tokio::task::JoinHandle;

use crate::connect::Address;
use crate::key::KeyName;
use crate::lane::Lane;
use crate::shared::Shared;
use crate::slot::{self, SLOTS};

/// The servers of a deployment, and who has which slot.
pub(crate) struct Shards {
    map: ArcSwap<Map>,
    /// A cluster stays one, and a server too.
    is_cluster: bool,
}

#[derive(Clone)]
pub(crate) enum Map {
    /// One server has everything.
    One(Arc<Running>),
    /// The primaries of a cluster.
    Cluster {
        primaries: Vec<(Address, Arc<Running>)>,
        /// The place among the primaries of each slot's; [`NOBODY`] if it has none.
        slots: Vec<u16>,
    },
}

/// The place of a primary that is not known.
pub(crate) const NOBODY: u16 = u16::MAX;

/// A lane and the task that serves it, which ends with this.
pub(crate) struct Running {
    pub(crate) lane: Arc<Lane>,
    task: JoinHandle<()>,
    /// Where the server is: keeps a fixed address in force.
    _address: Option<watch::Sender<Option<Address>>>,
}

impl Drop for Running {
    fn drop(&mut self) {
        self.task.abort();
        self.lane.give_up();
    }
}

impl Running {
    /// The way to a server that stays where it is.
    pub(crate) fn fixed(shared: &Arc<Shared>, address: Address, canary: KeyName) -> Arc<Self> {
        let (sender, address) = watch::channel(Some(address));
        Self::start(shared, address, canary, Some(sender))
    }

    /// The way to a server that moves.
    pub(crate) fn following(
        shared: &Arc<Shared>,
        address: watch::Receiver<Option<Address>>,
        canary: KeyName,
    ) -> Arc<Self> {
        Self::start(shared, address, canary, None)
    }

    fn start(
        shared: &Arc<Shared>,
        address: watch::Receiver<Option<Address>>,
        canary: KeyName,
        fixed: Option<watch::Sender<Option<Address>>>,
    ) -> Arc<Self> {
        let lane = Arc::new(Lane::new(shared.clone(), address, canary));
        Arc::new(Self {
            task: tokio::spawn(lane.clone().run()),
            lane,
            _address: fixed,
        })
    }
}

impl Shards {
    pub(crate) fn new(map: Map) -> Self {
        Self {
            is_cluster: matches!(map, Map::Cluster { .. }),
            map: ArcSwap::from_pointee(map),
        }
    }

    pub(crate) fn map(&self) -> Arc<Map> {
        self.map.load_full()
    }

    pub(crate) fn replace(&self, map: Map) {
        self.map.store(Arc::new(map));
    }

    /// All servers.
    pub(crate) fn lanes(&self) -> Vec<Arc<Lane>> {
        match &**self.map.load() {
            Map::One(running) => vec![running.lane.clone()],
            Map::Cluster { primaries, .. } => {
                primaries.iter().map(|(_, it)| it.lane.clone()).collect()
            }
        }
    }

    /// The server of a slot; none if nobody has it, as far as is known.
    pub(crate) fn lane(&self, slot: u16) -> Option<Arc<Lane>> {
        match &**self.map.load() {
            Map::One(running) => Some(running.lane.clone()),
            Map::Cluster { primaries, slots } => {
                let place = *slots.get(usize::from(slot))?;
                let (_, running) = primaries.get(usize::from(place))?;
                Some(running.lane.clone())
            }
        }
    }

    /// The slot of a bucket; where there are no slots, one for all.
    pub(crate) fn slot(&self, key: &KeyName) -> u16 {
        if self.is_cluster() {
            slot::slot(key.as_bytes())
        } else {
            0
        }
    }

    /// Whether buckets are spread over slots.
    pub(crate) fn is_cluster(&self) -> bool {
        self.is_cluster
    }

    /// The server at an address, if it is a primary that is known.
    pub(crate) fn at(&self, address: &Address) -> Option<Arc<Lane>> {
        match &**self.map.load() {
            Map::One(_) => None,
            Map::Cluster { primaries, .. } => {
                let (_, running) = primaries.iter().find(|(at, _)| at == address)?;
                Some(running.lane.clone())
            }
        }
    }

    /// A slot was found to have moved to a primary that is known.
    pub(crate) fn moved(&self, slot: u16, to: &Address) {
        let is_news = |map: &Map| match map {
            Map::One(_) => None,
            Map::Cluster { primaries, slots } => {
                let place = primaries.iter().position(|(at, _)| at == to)?;
                let place = u16::try_from(place).ok()?;
                (*slots.get(usize::from(slot))? != place).then_some(place)
            }
        };
        if is_news(&self.map.load()).is_none() {
            return;
        }
        self.map.rcu(|map| {
            let news = is_news(map);
            let mut map = Map::clone(map);
            if let (Some(news), Map::Cluster { slots, .. }) = (news, &mut map)
                && let Some(place) = slots.get_mut(usize::from(slot))
            {
                *place = news;
            }
            map
        });
    }
}

/// A map of no slots.
pub(crate) fn empty_cluster() -> Map {
    Map::Cluster {
        primaries: Vec::new(),
        slots: vec![NOBODY; usize::from(SLOTS)],
    }
}
