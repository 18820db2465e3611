#include "tools/queue_follow.h"

#include <fmt/format.h>
#include <sysexits.h>

#include <cstdio>
#include <ctime>
#include <iterator>
#include <nlohmann/json.hpp>
#include <utility>

#include "lib/base/date.h"
#include "lib/base/text.h"
#include "lib/queue/views/destinations.h"
#include "lib/queue/views/queue.h"
#include "tools/output.h"
#include "tools/queue_client.h"

namespace pen::tools {
namespace {

using namespace ipc::queue;

constexpr seconds kAnswer{600};    // a listing of one message waits for a scan
constexpr seconds kComesBack{60};  // a queue manager that is replaced
constexpr milliseconds kAgain{100};
constexpr seconds kLastWord{1};
constexpr std::size_t kShownRecipients = 50;

struct StepRow {
  Step step;
  const char* name;  // in JSON
  const char* text;
};
constexpr StepRow kSteps[] = {
    {Step::watched, "watched", "followed from here on"},
    {Step::active, "active", "is being worked on"},
    {Step::handed, "handed", "is handed to"},
    {Step::delivered, "delivered", "delivered to"},
    {Step::deferred, "deferred", "deferred for"},
    {Step::failed, "failed", "cannot be delivered to"},
    {Step::waits, "waits", "waits"},
    {Step::expired, "expired", "is too old: returned to its sender"},
    {Step::held, "held", "is put on hold"},
    {Step::released, "released", "is released from hold"},
    {Step::requeued, "requeued", "is queued anew"},
    {Step::removed, "removed", "has left the queue"},
    {Step::deleted, "deleted", "was deleted by an order"},
    {Step::missed, "missed", "steps are missing here: they came faster than they were read"},
};
const StepRow& row_of(Step step) {
  static constexpr StepRow kUnknown{Step::watched, "unknown", "?"};
  const auto i = static_cast<std::size_t>(step);
  return i < std::size(kSteps) ? kSteps[i] : kUnknown;
}

std::string named(const Happened& what) {
  std::string out;
  for (const std::string& r : what.recipients) out += (out.empty() ? "<" : ", <") + readable(r) + ">";
  if (what.count > what.recipients.size()) out += fmt::format(" and {} more", what.count - what.recipients.size());
  return out;
}

std::string in_seconds(WallTime then, WallTime now) {
  const auto left = std::chrono::ceil<seconds>(then - now).count();
  return left > 0 ? fmt::format("{} (in {} s)", local_text(then), left) : "now";
}

}  // namespace

std::string Followed::state(const Entry& e, WallTime now) {
  returned_ = returned_ || !e.bounced.empty();
  if (json_) {
    auto j = views::to_json(e);
    j["event"] = "state";
    return views::text_of(j);
  }
  const std::string head = fmt::format("{} {} ", local_text(now), readable(e.queue_id));
  std::string out = fmt::format("{}is in the queue, {}: from <{}>, {} bytes, {} left{}\n", head, name_of(e.place),
                                readable(e.sender), e.size, e.recipients.size(),
                                e.place == Place::deferred ? ", next try " + in_seconds(e.next_try, now) : "");
  std::size_t shown = 0;
  for (const auto& r : e.recipients) {
    if (r.delay_reason.empty()) continue;
    if (++shown > kShownRecipients) break;
    out += fmt::format("{}waits for <{}>: {}\n", head, readable(r.address), readable(r.delay_reason));
  }
  return out;
}

std::string Followed::step(const Happened& what) {
  if (what.step == Step::failed) returned_ = true;
  if (what.step == Step::removed) ended_ = returned_ ? kReturned : EX_OK;
  if (what.step == Step::deleted) ended_ = kDeleted;
  const StepRow& row = row_of(what.step);
  if (json_) {
    nlohmann::ordered_json j = {{"event", row.name},
                                {"time", std::chrono::duration<double>(what.time.time_since_epoch()).count()},
                                {"queue_id", what.queue_id}};
    if (what.count > 0) j["count"] = what.count;
    if (!what.recipients.empty()) j["recipients"] = what.recipients;
    if (!what.where.empty()) j["where"] = what.where;
    if (!what.text.empty()) j["text"] = what.text;
    if (what.step == Step::waits) j["next_try"] = unix_seconds(what.next_try);
    return views::text_of(j);
  }
  if (what.step == Step::missed) return fmt::format("({} {})\n", what.count, row.text);
  std::string out = fmt::format("{} {} {}", local_text(what.time), readable(what.queue_id), row.text);
  if (what.step == Step::handed)
    out += fmt::format(" {}: {}", readable(what.where), named(what));
  else if (what.step == Step::waits)
    out += ", next try " + in_seconds(what.next_try, what.time);
  else if (what.count > 0)
    out += " " + named(what);
  if (!what.text.empty()) out += ": " + readable(what.text);
  return out + "\n";
}

namespace {

class Follower {
 public:
  Follower(std::string program, const config::Config& config, std::string id, bool json)
      : program_(std::move(program)),
        path_(config.settings().queue_directory + "/" + std::string(ipc::kQmgrSocket)),
        id_(std::move(id)),
        followed_(json) {}

  int run() {
    async::Loop loop;
    loop.spawn("follow", follow(this, &loop));
    loop.run();
    return status_;
  }

 private:
  static async::Task<void> follow(Follower* self, async::Loop* loop);
  /// One conversation. True: it broke, and may be held again.
  static async::Task<bool> converse(Follower* self, async::Loop* loop, QueueChannel* channel);
  /// False: there is no such message.
  static async::Task<bool> show_state(Follower* self, async::Loop* loop);
  void say(const Happened& what) {
    if (what.step == Step::watched) return;
    print(followed_.step(what));
    std::fflush(stdout);
  }
  void fail(int status, const std::string& text) {
    std::fflush(stdout);
    std::fprintf(stderr, "%s: %s\n", program_.c_str(), text.c_str());
    status_ = status;
  }

  std::string program_, path_, id_;
  Followed followed_;
  bool begun_ = false;
  int status_ = EX_UNAVAILABLE;
};

async::Task<bool> Follower::show_state(Follower* self, async::Loop* loop) {
  auto channel = co_await connect_to_queue(self->program_, *loop, self->path_);
  if (!channel) co_return true;  // the other conversation finds the same
  List list;
  list.request = 1;
  list.queue_id = self->id_;
  (void)channel->send(list);
  Entry whole;
  for (;;) {
    auto received = co_await channel->receive({.deadline = loop->now() + kAnswer});
    if (!received) co_return true;
    if (auto* e = std::get_if<Entry>(&received->message)) {
      auto recipients = std::move(whole.recipients);
      auto bounced = std::move(whole.bounced);
      std::move(e->recipients.begin(), e->recipients.end(), std::back_inserter(recipients));
      std::move(e->bounced.begin(), e->bounced.end(), std::back_inserter(bounced));
      whole = std::move(*e);
      whole.recipients = std::move(recipients);
      whole.bounced = std::move(bounced);
      if (whole.more) continue;
      print(self->followed_.state(whole, loop->clock().wall_now()));
      std::fflush(stdout);
      whole = {};
    } else if (auto* done = std::get_if<Done>(&received->message)) {
      co_return done->outcome != Outcome::not_found;
    }
  }
}

async::Task<bool> Follower::converse(Follower* self, async::Loop* loop, QueueChannel* channel) {
  (void)channel->send(Watch{1, self->id_});
  async::Until until{.deadline = loop->now() + kAnswer};
  bool there = true;
  for (;;) {
    auto received = co_await channel->receive(until);
    if (!received) {
      if (there) co_return true;
      if (self->begun_)
        self->fail(EX_TEMPFAIL, self->id_ + " left the queue while it could not be followed: the log says how");
      else
        self->fail(EX_DATAERR, self->id_ + ": no such message in the queue");
      co_return false;
    }
    if (auto* done = std::get_if<Done>(&received->message)) {
      self->fail(done->outcome == Outcome::denied ? EX_NOPERM : EX_UNAVAILABLE, done->text);
      co_return false;
    }
    const auto* what = std::get_if<Happened>(&received->message);
    if (what == nullptr) continue;
    until.deadline = kNever;
    self->say(*what);
    if (!self->id_.empty() && self->followed_.ended()) {
      self->status_ = *self->followed_.ended();
      co_return false;
    }
    if (what->step == Step::watched && !self->id_.empty()) {
      there = co_await show_state(self, loop);
      // It may have left since it is watched: that is on its way then.
      if (!there)
        until.deadline = loop->now() + kLastWord;
      else
        self->begun_ = true;
    }
  }
}

async::Task<void> Follower::follow(Follower* self, async::Loop* loop) {
  SteadyTime give_up = loop->now();
  for (;;) {
    auto channel = co_await connect_to_queue(self->program_, *loop, self->path_);
    if (channel) {
      if (!co_await converse(self, loop, &*channel)) break;
      give_up = loop->now() + kComesBack;
    } else if (loop->now() >= give_up) {
      self->fail(EX_UNAVAILABLE,
                 channel.error().is(async::WaitError::timed_out)
                     ? "the queue manager " + not_greeted()
                     : "cannot reach the queue manager (is the mail system running?): " + channel.error().message());
      break;
    }
    if (!co_await loop->sleep(kAgain)) break;
  }
  loop->stop();
}

}  // namespace

int follow_queue(const std::string& program, const config::Config& config, const std::string& queue_id, bool json) {
  return Follower(program, config, queue_id, json).run();
}

}  // namespace pen::tools
