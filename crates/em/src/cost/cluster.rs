//! Mehlhorn and Meyer's cluster size in closed form, from what the two devices charge.
//!
//! # Model
//! Breadth-first search on n nodes reads n / c clusters of c nodes at random from the structure's device. An entry of the
//! pool stays there for about k c levels, and each level reads and writes it once (Mehlhorn and Meyer 2002, section 3:
//! mu = 1 / c balances the two):
//!
//! ```text
//! time(c) = n / c * cluster_read + n * c * k * entry * (pool_read + pool_write)
//! ```
//!
//! The derivative is zero at c = sqrt(cluster_read / (k * entry * (pool_read + pool_write))). Ajwani et al., chapter 4: a
//! structure on flash makes `cluster_read` smaller and with it the best cluster.
//!
//! # Invariant
//! - The size is at least 1 node.

use flashlab_base::Bytes;

use super::costs::DeviceCosts;

/// How long an entry stays in the pool, in cluster sizes: k of the model. Along a path whose masters are drawn with
/// probability 1 / c, a cluster is the cell between two midpoints. Its length has mean c and mean square 1.5 c^2, so that
/// a node waits 1.5 c^2 / (2 c) levels on average.
pub(super) const STAY: f64 = 0.75;

/// What a search's cluster size depends on.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ClusterCosts {
    /// One random read of a block of the structure, in nanoseconds.
    pub cluster_read_ns: f64,
    /// Reading and writing one byte of the pool, in nanoseconds.
    pub pool_byte_ns: f64,
    /// The bytes of the pool for each node.
    pub node_bytes: f64,
    /// What the CPU adds for each node and level in the pool, in nanoseconds.
    pub pool_host_ns: f64,
}

/// A cluster size with the parts of the time that it balances.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ClusterSize {
    /// Nodes in a cluster.
    pub nodes: f64,
    /// Time of the random cluster reads for each node of the graph, in nanoseconds.
    pub reads_ns: f64,
    /// Time of the pool's scans for each node of the graph, in nanoseconds.
    pub pool_ns: f64,
}

impl ClusterCosts {
    /// The costs where the structure lies on the devices `structure` and the pool on the devices `pool`, with random reads
    /// of `block` and sequences in IOs of `sequence_block`. IOs to several devices share the work, but all wait for the
    /// slowest device. A scan of the pool alternates between reading and writing, so that each IO begins elsewhere.
    pub fn of(
        structure: &[DeviceCosts],
        pool: &[DeviceCosts],
        block: Bytes,
        sequence_block: Bytes,
        node_bytes: f64,
    ) -> ClusterCosts {
        let slowest = |devices: &[DeviceCosts], cost: &dyn Fn(&DeviceCosts) -> f64| {
            devices.iter().map(cost).fold(0.0, f64::max) / devices.len().max(1) as f64
        };
        ClusterCosts {
            cluster_read_ns: slowest(structure, &|costs| costs.random_read.of(block)),
            pool_byte_ns: 2.0 * slowest(pool, &|costs| costs.alternating.of(sequence_block))
                / sequence_block.0.max(1) as f64,
            node_bytes,
            pool_host_ns: 0.0,
        }
    }

    /// The time of a search for each node of the graph with clusters of this size.
    pub fn at(&self, nodes: f64) -> ClusterSize {
        let pool_ns = nodes * STAY * (self.node_bytes * self.pool_byte_ns + self.pool_host_ns);
        ClusterSize { nodes, reads_ns: self.cluster_read_ns / nodes, pool_ns }
    }
}

/// The cluster size whose search takes the least time.
pub fn best_cluster(costs: &ClusterCosts) -> ClusterSize {
    let one = costs.at(1.0);
    costs.at((one.reads_ns / one.pool_ns.max(f64::MIN_POSITIVE)).sqrt().max(1.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    const DISK: ClusterCosts =
        ClusterCosts { cluster_read_ns: 8e6, pool_byte_ns: 24.0, node_bytes: 24.0, pool_host_ns: 0.0 };

    #[test]
    fn no_other_size_is_better_and_the_two_parts_balance() {
        let best = best_cluster(&DISK);
        assert!((best.reads_ns / best.pool_ns - 1.0).abs() < 1e-9, "{best:?}");
        for factor in [0.5, 0.9, 1.1, 2.0] {
            let other = DISK.at(best.nodes * factor);
            assert!(other.reads_ns + other.pool_ns > best.reads_ns + best.pool_ns);
        }
    }

    #[test]
    fn faster_random_reads_make_clusters_smaller() {
        let flash = ClusterCosts { cluster_read_ns: DISK.cluster_read_ns / 4.0, ..DISK };
        let ratio = best_cluster(&DISK).nodes / best_cluster(&flash).nodes;
        assert!((ratio - 2.0).abs() < 1e-9, "{ratio}");
        let instant = ClusterCosts { cluster_read_ns: 0.0, ..DISK };
        assert_eq!(best_cluster(&instant).nodes, 1.0);
    }
}
