#pragma once
/// Whether the queue has a message already under the id of one that is handed in.
///
/// Why:     a message whose id another one has outdoes it when a runner comes to the older (docs/queue-recovery.md, "A
///          message that is there twice"). Receivers make their ids themselves: without this look a program that was
///          taken over could make mail that waits, and that it cannot open, vanish by handing in other mail under its
///          id.
/// Use:     if (!earlier.is_new(id)) earlier.look(envelope, [](Found found) { … });     // else there is none
/// How:     the log knows the ids of the last tens of thousands of messages that this process took. One whose id says
///          that it was made before those, or says nothing, is looked for in all logs: mail that waited for a restart
///          of qmgr, in maildrop or in a program, what is imported, and on a busy host mail of slow clients.
/// Bounds:  one look at a time, for kAtOnce messages together, with a pause as long as the look took: strangers may be
///          slow as often as they like. The caller bounds how many wait.
/// Thread:  the loop's. The object must outlive its coroutine.
#include <deque>
#include <functional>
#include <string>
#include <string_view>

#include "lib/base/async/loop.h"
#include "lib/mail/envelope.h"
#include "qmgr/manager.h"

namespace pen::qmgr {

class EarlierMail {
 public:
  // Of the clock: an id that says so tells nothing. And what is new while the clock is not what it was.
  static constexpr seconds kAhead{60};
  static constexpr std::size_t kAtOnce = 64;  // for more, filters of segments say little

  enum class Found : std::uint8_t {
    none,
    same,     // the message itself, on the disk
    another,  // of another arrival
    unknown,  // the disk does not say
  };
  using Then = std::function<void(Found)>;

  EarlierMail(async::Loop& loop, Manager& manager) : loop_(loop), manager_(manager) {}

  bool is_new(std::string_view queue_id) const;
  /// `then` is called later, once.
  void look(const mail::Envelope& envelope, Then then);

 private:
  struct Waiting {
    std::string queue_id;
    WallTime arrived;
    Then then;
    Found found = Found::none;
    bool durable = true;  // what was found
  };
  static async::Task<void> run(EarlierMail* self);
  async::Task<void> search(std::deque<Waiting>* some);
  void compare(Waiting& one, const queue_log::Listed& there) const;

  async::Loop& loop_;
  Manager& manager_;
  std::deque<Waiting> waiting_;
  bool running_ = false;
};

}  // namespace pen::qmgr
