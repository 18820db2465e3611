#pragma once
/// New mail that is not yet started, in order of position: what the journal's runner need not read again to find.
/// Private to lib/queue/queue_log.
///
/// Use:     fresh.add(position);  fresh.start(position);  while (auto at = fresh.first()) …
/// Bounds:  kMost; what is appended after that the runner reads from the journal: take_lost().
#include <algorithm>
#include <deque>
#include <optional>
#include <utility>

#include "lib/queue/queue_log/message.h"

namespace pen::queue_log {

class FreshMail {
 public:
  static constexpr std::size_t kMost = 65536;

  void add(const Position& position) {
    if (lost_) return;
    if (mail_.size() >= kMost)
      lost_ = position;
    else
      mail_.push_back({position, false});
  }
  /// Work on it was begun, or it is garbage.
  void start(const Position& position) {
    const auto it = std::lower_bound(mail_.begin(), mail_.end(), position,
                                     [](const Mail& m, const Position& p) { return m.position < p; });
    if (it != mail_.end() && it->position == position) it->started = true;
    drop_started();
  }
  std::optional<Position> first() {
    drop_started();
    return mail_.empty() ? std::nullopt : std::optional(mail_.front().position);
  }
  void drop_first() { mail_.pop_front(); }
  /// From here on the journal must be read: there was no room.
  std::optional<Position> take_lost() { return std::exchange(lost_, std::nullopt); }

  /// The journal's runner reads up to here before it turns to the mail here.
  const Position& read_to() const { return read_to_; }
  void set_read_to(const Position& end) { read_to_ = end; }

  /// The first position of the journal that its runner, which reads at `reading`, needs.
  Position needed_from(const Position& reading, const Position& end) const {
    if (reading < read_to_) return reading;
    if (!mail_.empty()) return mail_.front().position;
    return lost_.value_or(end);
  }

 private:
  struct Mail {
    Position position;
    bool started = false;
  };
  void drop_started() {
    while (!mail_.empty() && mail_.front().started) mail_.pop_front();
  }

  std::deque<Mail> mail_;
  Position read_to_;
  std::optional<Position> lost_;
};

}  // namespace pen::queue_log
