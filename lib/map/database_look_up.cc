#include "lib/map/database_look_up.h"

#include <algorithm>
#include <cerrno>
#include <utility>

#include "lib/base/text.h"
#include "lib/map/database_pool_state.h"

namespace pen::map::database {
namespace {

/// What may be shown of a host: of a URI neither the login nor the options, which may hold passwords too.
std::string shown_host(const std::string& host) {
  const auto scheme = host.find("://");
  if (scheme == std::string::npos) return host;
  const std::size_t from = scheme + 3;
  const std::string uri = host.substr(0, host.find('?'));
  const auto at = uri.substr(0, uri.find('/', from)).rfind('@');
  return at == std::string::npos || at < from ? uri : uri.substr(0, from) + uri.substr(at + 1);
}

Error failure_of(const std::string& host, const Report& report) {
  const bool late = report.outcome == Outcome::timed_out;
  std::string text = shown_host(host) + ": " + (report.why.empty() && late ? "no answer" : printable(report.why, 400));
  return Error(MapError::unreadable, std::move(text), late ? ETIMEDOUT : 0);
}

}  // namespace

LookUp::LookUp(Pools& pools, Pools::TablePtr table, Question question, std::function<void()> wake)
    : pools_(pools),
      table_(std::move(table)),
      question_(std::move(question)),
      wake_(std::move(wake)),
      deadline_(question_.since + table_->patience) {}

LookUp::~LookUp() {
  {
    const std::lock_guard lock(pools_.mutex_);
    pools_.waiting_.erase(this);
  }
  if (connection_) give_back(false);
  close();
}

Steps::Next LookUp::next() {
  for (;;) {
    // The end of a connection may wait for its server.
    if (!closing_.empty()) return Next::thread;
    switch (state_) {
      case State::load:
        begin();
        if (state_ == State::load) return Next::thread;
        break;
      case State::begin:
        begin();
        break;
      case State::host:
        next_host();
        break;
      case State::connection:
        if (!take_connection()) return Next::room;
        break;
      case State::connect:
        return Next::thread;
      case State::ask:
        if (!wake_ || !connection_->in_steps()) return Next::thread;
        prepare();
        state_ = State::answer;
        if (auto report = connection_->begin(*lookup_)) {
          answered(*std::move(report));
          break;
        }
        return wait_for_answer();
      case State::answer:
        if (auto report = connection_->step(*lookup_))
          answered(*std::move(report));
        else if (pools_.clock_.now() >= lookup_->deadline)
          answered({Outcome::timed_out, "", false});
        else
          return wait_for_answer();
        break;
      case State::pause:
        if (!pause_over()) return Next::room;
        break;
      case State::done:
        return Next::done;
    }
  }
}

void LookUp::in_thread() {
  if (state_ == State::load) {
    auto driver = pools_.drivers_(table_->type);
    if (!driver) return end_with(std::unexpected(std::move(driver).error()));
    driver_ = *driver;
    state_ = State::begin;
    return;
  }
  close();
  if (state_ == State::connect) connect();
  if (state_ != State::ask || (wake_ && connection_->in_steps())) return;
  prepare();
  answered(connection_->ask(*lookup_));
  close();
}

Steps::Descriptor LookUp::descriptor() const {
  const auto [fd, write] = connection_->waits();
  return {fd, write};
}

/// Ends connections that are done with.
void LookUp::close() {
  closing_.clear();
  if (counted_ == 0) return;
  const std::lock_guard lock(pools_.mutex_);
  pool_->open -= counted_;
  pools_.open_ -= counted_;
  counted_ = 0;
  pools_.tell_room();
}

void LookUp::end_with(Value value) {
  value_ = std::move(value);
  state_ = State::done;
}

/// Under the lock. The wait ends with tell_room(), or at this time.
void LookUp::wait_until(SteadyTime until) {
  until_ = until;
  seen_ = pools_.room_told_;
  if (wake_) pools_.waiting_.insert(this);
}

void LookUp::begin() {
  const std::lock_guard lock(pools_.mutex_);
  pool_ = &pools_.pool_of(*table_);
  if (driver_ != nullptr) pool_->driver = driver_;
  if (pool_->driver == nullptr) return;  // to be loaded, in a thread
  began_ = pools_.clock_.now();
  if (pool_->failed >= question_.since) return end_with(std::unexpected(pool_->failure));
  hosts_ = pools_.order(*pool_, table_->leave_out_only_host);
  if (hosts_.empty()) return end_with(std::unexpected(pool_->failure));
  state_ = State::host;
}

void LookUp::next_host() {
  const SteadyTime now = pools_.clock_.now();
  if (place_ == hosts_.size() || now >= deadline_) return give_up();
  host_until_ = now + (deadline_ - now) / static_cast<int>(hosts_.size() - place_);
  tries_ = 1;
  rested_once_ = false;
  state_ = State::connection;
}

/// A connection at rest, or the permission to make one. False: it is to be waited for.
bool LookUp::take_connection() {
  Pools::Host& host = *hosts_[place_];
  {
    const std::lock_guard lock(pools_.mutex_);
    pools_.waiting_.erase(this);
    connection_ = pools_.idle_of(host);
    rested_ = connection_ != nullptr;
    if (rested_) {
      state_ = State::ask;
      return true;
    }
    if (pool_->failed >= question_.since) {
      end_with(std::unexpected(pool_->failure));
      return true;
    }
    if (pools_.make_room(*pool_, closing_)) {
      ++pool_->open;
      ++pools_.open_;
      ++pools_.counts_.connects;
      state_ = State::connect;
      return true;
    }
    if (!closing_.empty()) return true;  // they end first
    if (pools_.clock_.now() < host_until_) {
      wait_until(host_until_);
      return false;
    }
  }
  host_reports({Outcome::timed_out, "all connections are busy"});
  return true;
}

void LookUp::connect() {
  const auto limit = std::min<std::chrono::nanoseconds>(pools_.limits_.connect, table_->try_patience);
  Report report{Outcome::lost, "cannot connect"};
  connection_ = pool_->driver->connect(table_->settings, hosts_[place_]->name,
                                       std::min(host_until_, pools_.clock_.now() + limit), report);
  if (connection_) {
    state_ = State::ask;
    return;
  }
  if (report.outcome == Outcome::done) report.outcome = Outcome::lost;
  ++counted_;
  close();
  host_reports(report);
}

/// What the driver is given of the question.
void LookUp::prepare() {
  values_.emplace(*table_, question_.key);
  lookup_.emplace(Lookup{table_->settings,
                         [this](std::string_view parameter, const Quote& quote) {
                           return table_->templates.at(std::string(parameter)).expand(KeyParts(question_.key), quote);
                         },
                         [this](std::string_view value) { return values_->add(value); },
                         std::min(host_until_, pools_.clock_.now() + table_->try_patience),
                         question_.store ? &*question_.store : nullptr});
}

Steps::Next LookUp::wait_for_answer() {
  until_ = lookup_->deadline;
  return Next::descriptor;
}

void LookUp::answered(Report report) {
  give_back(report.reusable && (report.outcome == Outcome::done || report.outcome == Outcome::refused));
  const bool late = report.outcome == Outcome::timed_out;
  if (report.outcome != Outcome::lost && !late) return host_reports(report);
  if (rested_ && !late) {
    drop_idle();
    // The server closes what was idle for long, and everything when it is restarted: that is no try.
    if (!std::exchange(rested_once_, true)) {
      state_ = State::connection;
      return;
    }
  }
  const SteadyTime again = pools_.clock_.now() + table_->pause;
  if (tries_++ >= table_->tries || again >= host_until_) return host_reports(report);
  report_ = std::move(report);
  pause_until_ = again;
  state_ = State::pause;
}

/// Between two tries. False: it is to be waited for.
bool LookUp::pause_over() {
  {
    const std::lock_guard lock(pools_.mutex_);
    pools_.waiting_.erase(this);
    if (pool_->failed < question_.since) {
      if (pools_.clock_.now() >= pause_until_) {
        state_ = State::connection;
        return true;
      }
      wait_until(pause_until_);
      return false;
    }
  }
  host_reports(report_);
  return true;
}

void LookUp::give_back(bool keep) {
  if (!keep) {
    closing_.push_back(std::move(connection_));
    ++counted_;
    return;
  }
  const std::lock_guard lock(pools_.mutex_);
  const SteadyTime close_at = pools_.clock_.now() + pool_->idle_interval;
  hosts_[place_]->idle.push_back({std::move(connection_), close_at});
  ++pools_.counts_.idle;
  if (close_at < pools_.wake_at_) {
    pools_.wake_at_ = close_at;
    pools_.idled_.notify_one();
  }
  pools_.tell_room();
}

/// The other connections to this host that rest: their server has ended them, too.
void LookUp::drop_idle() {
  const std::lock_guard lock(pools_.mutex_);
  auto& idle = hosts_[place_]->idle;
  pools_.counts_.idle -= idle.size();
  counted_ += idle.size();
  for (auto& rest : idle) closing_.push_back(std::move(rest.connection));
  idle.clear();
}

/// Under the lock.
void LookUp::leave_out(Pools::Host& host) const {
  host.back_off = std::min(pool_->retry_interval, std::max(2 * host.back_off, pools_.limits_.first_back_off));
  host.retry_at = pools_.clock_.now() + host.back_off;
}

/// What came of the host: the answer, or the next one is asked.
void LookUp::host_reports(const Report& report) {
  const std::lock_guard lock(pools_.mutex_);
  Pools::Host& host = *hosts_[place_];
  if (report.outcome == Outcome::done) {
    pool_->answered = pools_.clock_.now();
    host.back_off = {};
    host.retry_at = {};
    for (Pools::Host* other : refused_) leave_out(*other);
    return end_with(std::move(*values_).take());
  }
  ++pools_.counts_.failures;
  last_ = failure_of(host.name, report);
  if (report.outcome == Outcome::refused) {
    refused_.push_back(&host);
  } else {
    leave_out(host);
  }
  ++place_;
  state_ = State::host;
}

void LookUp::give_up() {
  const std::lock_guard lock(pools_.mutex_);
  pool_->failure = last_;
  if (refused_.empty() && pool_->answered < began_) {
    pool_->failed = pools_.clock_.now();
    pools_.tell_room();
  }
  end_with(std::unexpected(last_));
}

}  // namespace pen::map::database
