#include "lib/suite/events/emitter.h"

#include <fmt/format.h>
#include <unistd.h>

#include <deque>
#include <memory>
#include <utility>

#include "lib/base/check.h"
#include "lib/base/codec.h"
#include "lib/suite/ipc/events.h"
#include "lib/suite/ipc/link.h"

namespace pen::events {
namespace {

namespace conversation = ipc::events;

constexpr std::size_t kMostInFrame = 256 * 1024;  // less than a frame may have
constexpr milliseconds kSettle{500};
// Together they cost a system call here and a wake-up there, which is most of what events cost.
constexpr milliseconds kGather{100};
constexpr std::size_t kGathered = 32 * 1024;
// An event that ends every penevents must not be told for ever.
constexpr unsigned kTries = 3;

/// The bytes of the first event: its length, and what follows.
std::size_t first_event(std::string_view events) {
  std::size_t size = 0;
  for (unsigned shift = 0, i = 0;; shift += 7, ++i) {
    size |= (static_cast<std::size_t>(events[i]) & 0x7FU) << shift;
    if ((static_cast<unsigned char>(events[i]) & 0x80U) == 0) return size + i + 1;
  }
}

std::uint64_t count(std::string_view events) {
  std::uint64_t number = 0;
  for (; !events.empty(); events.remove_prefix(first_event(events))) ++number;
  return number;
}

/// As many whole events as a frame may have.
std::string_view one_frame(std::string_view events) {
  if (events.size() <= kMostInFrame) return events;
  std::size_t size = 0;
  for (std::size_t more = 0; size + (more = first_event(events.substr(size))) <= kMostInFrame;) size += more;
  return events.substr(0, size);
}

class Emitter {
 public:
  Emitter(async::Loop& loop, Source source)
      : loop_(loop),
        source_(std::move(source)),
        more_(loop),
        pid_(static_cast<std::uint64_t>(::getpid())),
        link_(loop,
              {.path = source_.path,
               .conversation = conversation::kName,
               .on_demand = true,
               .meanwhile = "events are not told; master.cf needs the line \"" +
                            source_.path.substr(source_.path.rfind('/') + 1) + " unix - - n - 1 penevents\"",
               .report = source_.report},
              *this) {}
  void start() { link_.start(); }

  void tell(const Event& event) {
    if (waiting_.size() + event.bytes().size() > kMaxWaiting) {
      ++uncounted_;
      ++dropped_;
      return;
    }
    event.append_to(waiting_);
    if (unsaid().size() >= kGathered) return send_or_wait();
    if (!timer_) timer_ = loop_.call_at(loop_.now() + kGather, [this] { send_or_wait(); });
  }
  void send_or_wait() {
    timer_.reset();
    if (unsaid().empty()) return;
    if (has_room()) return send();
    more_.set();
    link_.want();
  }
  /// Of an older penevents what is on its way counts as written.
  bool idle() { return waiting_.empty() && (!link_.connected() || link_.channel().queued() == 0); }
  /// The process ends.
  void say_what_is_lost() const {
    if (const auto lost = count(waiting_); lost > 0 && source_.report)
      source_.report(fmt::format("{} events may be lost: penevents did not say in time that it has them", lost));
  }
  async::Loop& loop() { return loop_; }
  std::uint64_t dropped() const { return dropped_; }

 private:
  using Link = ipc::Link<conversation::FromEvents, conversation::ToEvents, Emitter>;
  friend Link;
  void on_connected() { link_.beside("tell events", send_waiting(this)); }
  void on_message(Link::Channel::Received& received) {
    const auto* written = std::get_if<conversation::Written>(&received.message);
    if (written == nullptr || written->bytes > said_) return link_.give_up(Error(ipc::IpcError::out_of_place));
    forget(written->bytes);
    tries_ = 0;
  }
  /// What was said and not written is said again, to the next penevents.
  void on_lost(const Error&) {
    for (const CountTold& told : std::exchange(counted_, {})) uncounted_ += told.count;
    if (said_ > 0 && ++tries_ == kTries) {
      const auto lost = count(std::string_view(waiting_).substr(0, said_));
      dropped_ += lost;
      uncounted_ += lost;
      forget(said_);
      tries_ = 0;
    }
    said_ = 0;
    if (!waiting_.empty()) link_.want();
  }
  void on_refused(const Error& why) { on_lost(why); }
  std::string_view unsaid() const { return std::string_view(waiting_).substr(said_); }
  void forget(std::size_t bytes) {
    waiting_.erase(0, bytes);
    said_ -= bytes;
    while (!counted_.empty() && counted_.front().up_to <= bytes) counted_.pop_front();
    for (CountTold& told : counted_) told.up_to -= bytes;
  }

  static async::Task<void> send_waiting(Emitter* self) {
    for (;;) {
      while (!self->unsaid().empty() && self->has_room()) self->send();
      self->more_.reset();
      if (self->unsaid().empty())
        (void)co_await self->more_.wait();
      else if (!co_await self->link_.channel().flush())
        co_return;
    }
  }
  bool has_room() { return link_.connected() && link_.channel().is_open() && !link_.channel().congested(); }

  /// One frame. Events are not torn.
  void send() {
    const std::string_view events = one_frame(unsaid());
    conversation::Told told{source_.program, source_.service, pid_, events, uncounted_};
    PEN_CHECK(link_.channel().send(told));
    said_ += events.size();
    if (uncounted_ > 0) counted_.push_back({said_, std::exchange(uncounted_, 0)});
    if (link_.channel().peer_revision() < conversation::kWrittenRevision) forget(said_);
  }

  async::Loop& loop_;
  Source source_;
  async::Event more_;
  std::uint64_t pid_;
  std::string waiting_;                        // events that are not known to be written
  std::size_t said_ = 0;                       // bytes of them, in front, that this penevents has been told
  unsigned tries_ = 0;                         // how often a penevents ended without a word about them
  std::uint64_t dropped_ = 0, uncounted_ = 0;  // events that were dropped: all; those penevents is to be told of
  /// A count that penevents was told, with the frame that ends so far in what is said.
  struct CountTold {
    std::size_t up_to;
    std::uint64_t count;
  };
  std::deque<CountTold> counted_;
  async::Loop::TimerHandle timer_;
  Link link_;  // last: its task uses the rest
};

std::unique_ptr<Emitter> emitter;

}  // namespace

bool detail::open = false;

void open(async::Loop& loop, Source source) {
  emitter = std::make_unique<Emitter>(loop, std::move(source));
  emitter->start();
  detail::open = true;
}

void close() {
  emitter.reset();
  detail::open = false;
}

std::uint64_t next_session() {
  static std::uint64_t last = 0;
  return ++last;
}

std::string session_text(std::uint64_t number) {
  static const pid_t process = ::getpid();  // a system call each time; a forked child emits no events
  return number == 0 ? std::string() : fmt::format("{}-{}", process, number);
}

WallTime now() { return emitter ? emitter->loop().clock().wall_now() : WallTime(); }

void tell(const Event& event) {
  if (emitter) emitter->tell(event);
}

async::Task<void> settle() {
  if (!emitter) co_return;
  async::Loop& loop = emitter->loop();
  const SteadyTime end = loop.now() + kSettle;
  emitter->send_or_wait();
  co_await loop.next_turn();
  while (!emitter->idle() && loop.now() < end) (void)co_await loop.sleep(milliseconds(10));
  emitter->say_what_is_lost();
}

std::uint64_t dropped() { return emitter ? emitter->dropped() : 0; }

}  // namespace pen::events
