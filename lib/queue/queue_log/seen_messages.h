#pragma once
/// What recovery has read of each message so far. Private to lib/queue/queue_log.
///
/// Use:     SeenMessages seen; seen.of(id, hash).copies.push_back(…); for (auto* message : seen.in_order()) …
/// Why:     a restart reads up to a million small messages and meets most ids once. A hash node costs three look-ups of
///          memory that nobody touched lately; here a new id costs one, in a table of eight bytes an entry, and what is
///          kept lies in the order in which it was read, which is the order in which it is looked through again.
/// Memory:  an arena, given back at once with the object. Whatever was made stays where it is. It only grows.
/// Order:   of first sight, the same for the same logs.
#include <cstdint>
#include <memory_resource>
#include <optional>
#include <string_view>
#include <vector>

#include "lib/queue/queue_log/format.h"
#include "lib/queue/queue_log/message.h"

namespace pen::queue_log {

class SeenMessages {
 public:
  struct Copy {
    Position position;
    std::uint32_t generation = 0;
    std::uint32_t epoch = 0;  // of the envelope; while only its START was read, of that
    std::size_t bytes = 0;    // of the record's body; 0: not read
    bool garbage = false;
    bool started = false;  // known from a START, not from reading the envelope
    Position replaces;
    // its START was in the journal's last, unsynced write: what it says need not hold
    bool torn_start = false;
  };
  struct Seen {
    Seen(std::string_view id, std::pmr::memory_resource* memory) : queue_id(id), copies(memory) {}
    std::string_view queue_id;
    std::pmr::vector<Copy> copies;
    std::vector<DeliveryResult> deliveries;
    std::uint32_t newest_delivery = 0;      // generation
    std::uint32_t delivery_epoch = 0;       // of the last process that recorded one
    std::optional<std::uint32_t> finished;  // generations up to this one are done with
    std::uint32_t finished_epoch = 0;       // and so are the versions of earlier processes

    bool over(const Copy& copy) const {
      return (finished && copy.generation <= *finished) || copy.epoch < finished_epoch;
    }
    /// Work on it was begun, or on another version of the message after it was written.
    bool begun(const Copy& copy) const {
      return copy.started ||
             (!deliveries.empty() && (newest_delivery >= copy.generation || delivery_epoch > copy.epoch));
    }
  };

  SeenMessages() = default;
  SeenMessages(const SeenMessages&) = delete;
  SeenMessages& operator=(const SeenMessages&) = delete;
  ~SeenMessages();

  /// Made if this is the first record of that message. hash: always the same for the same id; ids with one hash are
  /// told apart.
  Seen& of(std::string_view queue_id, std::uint64_t hash);
  /// nullptr: no record of it was read.
  const Seen* find(std::string_view queue_id, std::uint64_t hash) const;
  /// It will be asked for soon: its place comes into the cache meanwhile.
  void prefetch(std::uint64_t hash) const {
    if (!slots_.empty()) __builtin_prefetch(&slots_[hash & (slots_.size() - 1)]);
  }
  const std::vector<Seen*>& in_order() const { return order_; }

 private:
  struct Slot {
    std::uint32_t tag = 0;    // the low half of the hash
    std::uint32_t entry = 0;  // in order_, counted from 1; 0: free
  };
  /// The slot that has it, or the free one where it belongs. There must be a free one.
  std::size_t place_of(std::string_view queue_id, std::uint32_t tag) const;
  void grow();

  std::pmr::monotonic_buffer_resource memory_{std::size_t{64} << 10};
  std::vector<Seen*> order_;
  std::vector<Slot> slots_;  // a power of two, at least twice as many as entries; or none
};

}  // namespace pen::queue_log
