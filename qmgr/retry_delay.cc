#include "qmgr/retry_delay.h"

#include <algorithm>
#include <optional>

#include "lib/mail/stated_delay.h"
#include "qmgr/scheduler/shaping_options.h"

namespace pen::qmgr {

seconds retry_delay(const ManagerOptions& options, const Active& m, WallTime now) {
  // The interval grows with the message's age, as in Postfix: each try comes after about twice the time of the last.
  const auto age = std::chrono::duration_cast<seconds>(now - m.envelope().due_from());
  const auto most = std::max(options.backoff_min, options.backoff_max);  // as Postfix, if they cross
  const auto usual = std::clamp(age, options.backoff_min, most);
  // A peer that says when to come back is believed, within the bounds: later than usual if every recipient got such a
  // reply, sooner down to a quarter, so that "in five minutes" does not bring us every five minutes for days. What
  // the scheduler says itself (shaping.h) is no peer's wish: it is the time at which there is room for the message.
  bool ours = true;
  std::optional<seconds> least;
  const std::string* last = nullptr;
  seconds last_wait = usual;
  for (const auto& range : m.remaining.ranges()) {
    for (std::uint32_t i = range.first; i < range.end; ++i) {
      const auto note = m.notes.find(i);
      seconds wait = usual;
      if (note == m.notes.end()) {
        ours = false;
      } else {
        const mail::DeliveryStatus& status = note->second.status;
        ours = ours && scheduler::was_put_off(status);
        if (last == nullptr || *last != status.text) last_wait = mail::stated_delay(status).value_or(usual);
        last = &status.text;
        wait = last_wait;
      }
      least = least ? std::min(*least, wait) : wait;
    }
  }
  return std::clamp(least.value_or(usual), ours ? options.backoff_min : std::max(options.backoff_min, usual / 4), most);
}

}  // namespace pen::qmgr
