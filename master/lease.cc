#include "master/lease.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include "lib/base/async/sync.h"
#include "lib/base/random.h"
#include "lib/base/text.h"
#include "lib/net/redis/server.h"

namespace pen::master {
namespace {

using async::Task;
using service::boot_now;

// Nothing tells of the end of a lock on another host.
constexpr milliseconds kLookAgain{250};
constexpr milliseconds kWriteAgain{1000};

/// standby_lease = file. The lock ends with this process, or when the server of the file system has given its host up.
/// Nobody tells a host of that: so its holder writes into the file again and again, by the descriptor that has the
/// lock, and has the queue for a bounded time from each write that was synced.
class FileLease final : public Lease {
 public:
  FileLease(async::Loop& loop, std::string path, std::string token, milliseconds time, service::LeasePage page)
      : loop_(loop),
        path_(std::move(path)),
        token_(std::move(token)),
        time_(time),
        page_(std::in_place, std::move(page)) {}

  Task<void> acquire(Tell tell) override {
    for (;;) {
      const auto asked = boot_now();
      if (!lock()) {
        tell(fd_ ? "another host has the lock " + path_ : path_ + ": " + Error::from_errno(errno).message());
      } else if (const auto written = write_name(); !written) {
        tell(written.error().message());
        fd_.reset();
      } else {
        extend(asked);
        co_return;
      }
      (void)co_await loop_.sleep(kLookAgain);
    }
  }
  Task<Error> keep() override {
    for (;;) {
      (void)co_await loop_.sleep(std::min(kWriteAgain, time_ / 4));
      const auto asked = boot_now();
      if (!page_->holds()) co_return lost("");
      const auto name = read_name();
      const auto written = name ? write_name() : Result<void>(fail(name.error()));
      if (name && *name != token_) {
        page_->hold_until(std::chrono::nanoseconds(0));
        co_return Error(LeaseError::taken, printable(*name, 200));
      }
      // A file system that has lost the lock says so with EIO. What is written later than that is not written.
      if (!written && written.error().is_errno(EIO)) co_return lost(written.error().message());
      if (!page_->holds()) co_return lost(written ? path_ + " was written too late" : written.error().message());
      if (written) extend(asked);  // else once more, while it holds
    }
  }
  Task<void> release() override {
    page_->hold_until(std::chrono::nanoseconds(0));
    fd_.reset();
    co_return;
  }
  int page() const override { return page_->fd(); }
  std::string token() const override { return token_; }
  int held() const override { return fd_.get(); }
  Result<void> resume(const std::string& token, Fd held, Fd page) override {
    fd_ = std::move(held);
    if (fd_) ::fcntl(fd_.get(), F_SETFD, FD_CLOEXEC);
    PEN_TRY_ASSIGN(service::LeasePage former, service::LeasePage::open(std::move(page)));
    token_ = token;
    page_.emplace(std::move(former));  // qmgr looks at this one
    if (page_->holds()) return {};
    fd_.reset();
    return fail(LeaseError::lost);
  }

 private:
  // The file has one line of this length, so that a shorter name leaves nothing of a longer one.
  static constexpr std::size_t kLine = 256;

  bool lock() {
    if (!fd_) fd_ = Fd(::open(path_.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600));
    struct flock whole{};
    whole.l_type = F_WRLCK;
    whole.l_whence = SEEK_SET;
    return fd_ && ::fcntl(fd_.get(), F_OFD_SETLK, &whole) == 0;
  }
  Result<void> write_name() const {
    const std::string line = fmt::format("{:<{}}\n", token_, kLine - 1);
    const ssize_t n = ::pwrite(fd_.get(), line.data(), line.size(), 0);
    if (n < 0 || ::fdatasync(fd_.get()) != 0) return fail_errno(path_);
    if (n != static_cast<ssize_t>(line.size())) return fail_errno(path_, ENOSPC);
    return {};
  }
  Result<std::string> read_name() const {
    std::string line(kLine, '\0');
    const ssize_t n = ::pread(fd_.get(), line.data(), line.size(), 0);
    if (n < 0) return fail_errno(path_);
    return std::string(trim(std::string_view(line).substr(0, static_cast<std::size_t>(n))));
  }
  void extend(std::chrono::nanoseconds asked) const { page_->hold_until(asked + time_ * 9 / 10); }
  Error lost(const std::string& why) const {
    page_->hold_until(std::chrono::nanoseconds(0));
    return Error(LeaseError::lost, why);
  }

  async::Loop& loop_;
  std::string path_, token_;
  milliseconds time_;
  std::optional<service::LeasePage> page_;  // of a former master of this host, where there was one
  Fd fd_;
};

enum Taken : std::uint8_t {
  others,      // with the holder's name
  was_absent,  // ours
  was_free,    // ours: its last holder had given it back
  was_ours,    // renewed
  left_absent
};
/// Answers with a Taken and a text. ARGV: token, milliseconds, whether it is taken if there is no lease.
constexpr const char* kTake =
    "local v=redis.call('GET',KEYS[1]) if not v and ARGV[3]=='0' then return {4,''} end "
    "if not v or v=='free' then redis.call('SET',KEYS[1],ARGV[1],'PX',ARGV[2]) if v then return {2,''} end "
    "return {1,''} end if v==ARGV[1] then redis.call('PEXPIRE',KEYS[1],ARGV[2]) return {3,''} end return {0,v}";
constexpr const char* kGiveBack = "if redis.call('GET',KEYS[1])==ARGV[1] then redis.call('SET',KEYS[1],'free') end";

/// standby_lease = redis.
class RedisLease final : public Lease {
 public:
  RedisLease(async::Loop& loop, redis::ClientOptions options, std::string key, std::string token, milliseconds time,
             service::LeasePage page)
      : loop_(loop),
        key_(std::move(key)),
        token_(std::move(token)),
        time_(time),
        page_(std::in_place, std::move(page)),
        answered_(loop),
        client_(loop, std::move(options),
                {.greeting = {},
                 .up = [this](const std::vector<redis::Reply>&) { trouble_.clear(); },
                 .down =
                     [this](const Error& why) {
                       seen_held_ = false;
                       absent_since_.reset();
                       trouble_ = why.message();
                     }}) {
    client_.start();
  }

  Task<void> acquire(Tell tell) override {
    for (;;) {
      const auto asked = boot_now();
      // Redis may have lost the key of a host that runs: it gets half of the time to say so.
      const bool may_be_absent = seen_held_ || (absent_since_ && asked - *absent_since_ > time_ / 2);
      const auto answer = co_await take(may_be_absent);
      if (!answer) {
        tell("redis: " + answer.error().message());
      } else if (answer->first == others) {
        seen_held_ = true;
        absent_since_.reset();
        tell("the lease is held by " + printable(answer->second, 200));
      } else if (answer->first == left_absent) {
        if (!absent_since_) absent_since_ = asked;
        tell("redis knows of no lease, and may have forgotten one");
      } else {
        extend(asked);
        // A key that ran out before our eyes, or was given back, says that nobody else believes in it.
        if (answer->first != was_absent || seen_held_ || co_await outwait(absent_since_.value_or(asked))) co_return;
      }
      (void)co_await loop_.sleep(std::clamp(time_ / 20, milliseconds(20), milliseconds(500)));
    }
  }

  Task<Error> keep() override {
    for (;;) {
      (void)co_await loop_.sleep(time_ / 4);
      const auto asked = boot_now();
      if (!page_->holds()) co_return lost();
      const auto answer = co_await take(true);
      // It may have run out while this process slept: what was answered before does not count then.
      if (!page_->holds()) co_return lost();
      if (!answer) continue;  // once more, while it holds
      if (answer->first == others) {
        page_->hold_until(std::chrono::nanoseconds(0));
        co_return Error(LeaseError::taken, printable(answer->second, 200));
      }
      extend(asked);
    }
  }

  Task<void> release() override {
    page_->hold_until(std::chrono::nanoseconds(0));
    async::Event done(loop_);
    const bool sent = client_.send({"EVAL", kGiveBack, "1", key_, token_}, [&](Result<redis::Reply>) { done.set(); });
    if (sent) (void)co_await done.wait();  // the client bounds the wait
  }
  int page() const override { return page_->fd(); }
  std::string token() const override { return token_; }
  Result<void> resume(const std::string& token, Fd, Fd page) override {
    PEN_TRY_ASSIGN(service::LeasePage former, service::LeasePage::open(std::move(page)));
    token_ = token;
    page_.emplace(std::move(former));  // qmgr looks at this one
    if (!page_->holds()) return fail(LeaseError::lost);
    return {};
  }

 private:
  using Answer = std::pair<std::int64_t, std::string>;

  Task<Result<Answer>> take(bool where_absent) {
    answered_.reset();
    std::optional<Result<redis::Reply>> reply;
    const bool sent =
        client_.send({"EVAL", kTake, "1", key_, token_, std::to_string(time_.count()), where_absent ? "1" : "0"},
                     [this, number = ++asked_, &reply](Result<redis::Reply> r) {
                       if (number != asked_) return;
                       reply = std::move(r);
                       answered_.set();
                     });
    if (!sent) co_return fail(redis::RedisError::closed, trouble_);
    (void)co_await answered_.wait();  // the client gives up a server that does not answer
    if (!*reply) co_return fail(std::move(*reply).error());
    const redis::Reply& r = **reply;
    if (r.kind != redis::Reply::Kind::array || r.items.size() != 2)
      co_return fail(redis::RedisError::refused, printable(r.text, 200));
    co_return Answer{r.items[0].integer, r.items[1].text};
  }

  void extend(std::chrono::nanoseconds asked) { page_->hold_until(asked + time_ * 9 / 10); }

  /// Until a holder that redis had forgotten by `since` must have stopped. True: the lease is still ours then.
  Task<bool> outwait(std::chrono::nanoseconds since) {
    const auto end = since + time_;
    while (boot_now() < end) {
      (void)co_await loop_.sleep(std::min<std::chrono::nanoseconds>(time_ / 4, end - boot_now()));
      const auto asked = boot_now();
      const auto answer = co_await take(true);
      if (answer && answer->first != others) extend(asked);
      if (!page_->holds() || (answer && answer->first == others)) co_return false;
    }
    co_return true;
  }

  Error lost() {
    page_->hold_until(std::chrono::nanoseconds(0));
    return Error(LeaseError::lost, trouble_);
  }

  async::Loop& loop_;
  std::string key_, token_;
  milliseconds time_;
  std::optional<service::LeasePage> page_;                // of a former master of this host, where there was one
  bool seen_held_ = false;                                // by another, on this connection
  std::optional<std::chrono::nanoseconds> absent_since_;  // on this connection
  std::string trouble_;
  std::uint64_t asked_ = 0;
  async::Event answered_;
  redis::Client client_;
};

}  // namespace

Result<std::unique_ptr<Lease>> Lease::make(async::Loop& loop, const config::Config& config) {
  const config::Settings& s = config.settings();
  if (s.standby_lease == config::StandbyLease::none) return nullptr;
  PEN_TRY_ASSIGN(service::LeasePage page, service::LeasePage::create());
  std::string token = printable(s.standby_host_name, 100) + fmt::format("/{:016x}", secure_random_u64());
  if (s.standby_lease == config::StandbyLease::file)
    return std::make_unique<FileLease>(loop, s.queue_directory + "/lease", std::move(token), s.standby_lease_time,
                                       std::move(page));
  PEN_TRY_ASSIGN(redis::ClientOptions options, redis::client_options(s));
  options.seed = secure_random_u64();
  // An answer that comes after the lease is of no use.
  options.timeout = std::min(options.timeout, s.standby_lease_time / 4);
  return std::make_unique<RedisLease>(loop, std::move(options), s.destdb_redis_prefix + "lease:" + s.queue_directory,
                                      std::move(token), s.standby_lease_time, std::move(page));
}

}  // namespace pen::master
