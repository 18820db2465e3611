#include "lib/suite/events/emitter.h"

#include <fmt/format.h>
#include <unistd.h>

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
      ++unsaid_;
      ++dropped_;
      return;
    }
    event.append_to(waiting_);
    if (waiting_.size() >= kGathered) return send_or_wait();
    if (!timer_) timer_ = loop_.call_at(loop_.now() + kGather, [this] { send_or_wait(); });
  }
  void send_or_wait() {
    timer_.reset();
    if (waiting_.empty()) return;
    if (has_room()) return send();
    more_.set();
    link_.want();
  }
  bool idle() { return waiting_.empty() && (!link_.connected() || link_.channel().queued() == 0); }
  async::Loop& loop() { return loop_; }
  std::uint64_t dropped() const { return dropped_; }

 private:
  using Link = ipc::Link<conversation::FromEvents, conversation::ToEvents, Emitter>;
  friend Link;
  void on_connected() { link_.beside("tell events", send_waiting(this)); }
  void on_message(Link::Channel::Received&) { link_.give_up(Error(ipc::IpcError::out_of_place)); }
  void on_lost(const Error&) {
    if (!waiting_.empty()) link_.want();
  }
  void on_refused(const Error& why) { on_lost(why); }

  static async::Task<void> send_waiting(Emitter* self) {
    for (;;) {
      while (!self->waiting_.empty() && self->has_room()) self->send();
      self->more_.reset();
      if (self->waiting_.empty())
        (void)co_await self->more_.wait();
      else if (!co_await self->link_.channel().flush())
        co_return;
    }
  }
  bool has_room() { return link_.connected() && link_.channel().is_open() && !link_.channel().congested(); }

  /// One frame. Events are not torn.
  void send() {
    std::size_t size = waiting_.size();
    if (size > kMostInFrame) {
      size = 0;
      for (std::string_view rest = waiting_; !rest.empty();) {
        std::size_t whole = 0;
        for (unsigned shift = 0, i = 0;; shift += 7, ++i) {
          whole |= (static_cast<std::size_t>(rest[i]) & 0x7FU) << shift;
          if ((static_cast<unsigned char>(rest[i]) & 0x80U) == 0) {
            whole += i + 1;
            break;
          }
        }
        if (size + whole > kMostInFrame) break;
        size += whole;
        rest.remove_prefix(whole);
      }
    }
    conversation::Told told{source_.program, source_.service, pid_, std::string_view(waiting_).substr(0, size),
                            std::exchange(unsaid_, 0)};
    PEN_CHECK(link_.channel().send(told));
    if (size == waiting_.size())
      waiting_.clear();
    else
      waiting_.erase(0, size);
  }

  async::Loop& loop_;
  Source source_;
  async::Event more_;
  std::uint64_t pid_;
  std::string waiting_;
  std::uint64_t unsaid_ = 0, dropped_ = 0;
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
}

std::uint64_t dropped() { return emitter ? emitter->dropped() : 0; }

}  // namespace pen::events
