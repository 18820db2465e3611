#include "anvil/suppression.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "anvil/under_way.h"
#include "lib/base/digest/digest.h"
#include "lib/base/log.h"
#include "lib/base/metrics/metrics.h"
#include "lib/base/text.h"
#include "lib/mail/logged.h"
#include "lib/suite/events/emitter.h"
#include "lib/suite/suppression/words.h"

namespace pen::anvil {
namespace {

using namespace ipc::suppression;
using pen::suppression::end_text;
using pen::suppression::word;

constexpr milliseconds kTryAgain{50};
constexpr std::size_t kAtOnce = 1000;   // changes in one transaction
constexpr std::size_t kCleaned = 2000;  // records looked at after each pause
constexpr std::size_t kListed = 500;    // entries of one answer, far below the longest frame
constexpr seconds kComplainEach{60};
constexpr seconds kForever{10 * 365 * 86'400};  // how long redis keeps what never ends

}  // namespace

Result<Suppression::Options> Suppression::Options::of(const config::Settings& s) {
  const auto whole = [](milliseconds time) { return std::chrono::ceil<seconds>(time); };
  Options out;
  out.directory = s.data_directory + "/suppressed";
  out.store.limit = static_cast<std::size_t>(s.suppression_limit);
  out.rules = {.bounce_days = static_cast<std::uint32_t>(s.suppression_bounce_days),
               .returned_days = static_cast<std::uint32_t>(s.suppression_returned_days),
               .bounce_time = whole(s.suppression_bounce_time),
               .returned_time = whole(s.suppression_returned_time),
               .complaint_time = whole(s.suppression_complaint_time),
               .count_time = whole(s.suppression_count_time)};
  auto exempt = map::MapList::open(join(s.suppression_exempt_maps),
                                   {.default_type = s.default_database_type, .setting = "suppression_exempt_maps"});
  if (!exempt) return fail(std::move(exempt).error().within("suppression_exempt_maps"));
  out.exempt = *std::move(exempt);
  return out;
}

Suppression::Suppression(async::Loop& loop, Options options, Warn warn)
    : loop_(loop),
      options_(std::move(options)),
      warn_(std::move(warn)),
      tables_(loop),
      opened_(loop),
      more_(loop),
      readers_(loop, 2),
      writer_(loop, 1),
      tasks_(loop) {}

void Suppression::share(redis::ClientOptions options, const std::string& prefix, redis::SharedHints::Say say) {
  options_.store.keeps_removals = true;
  others_ = std::make_unique<redis::SharedHints>(loop_, std::move(options), prefix + "suppressed:", std::move(say));
  others_->start();
}

async::Task<bool> Suppression::ready() {
  if (store_) co_return true;
  if (!opening_) {
    const SteadyTime time = loop_.now();
    if (stopping_now_ || (opened_at_ != SteadyTime::min() && time < opened_at_ + kOpenEach)) co_return false;
    opened_at_ = time;
    opening_ = true;
    opened_.reset();
    tasks_.spawn("suppression list", open(this));
  }
  (void)co_await opened_.wait();  // bounded by open()
  co_return store_ != nullptr;
}

async::Task<void> Suppression::open(Suppression* self) {
  const SteadyTime end = self->loop_.now() + kPatience;
  for (;;) {
    auto opened = co_await self->writer_.run([directory = self->options_.directory, options = self->options_.store] {
      return SuppressionStore::open(directory, options);
    });
    if (opened) {
      self->store_ = *std::move(opened);
      if (!self->store_->warning().empty()) self->warn_(self->store_->warning());
      self->tasks_.spawn("cleaning of the suppression list", clean(self));
      break;
    }
    // The process of before a reload may have it.
    const bool busy = opened.error().is_errno(EWOULDBLOCK) && self->loop_.now() < end;
    if (busy && co_await self->loop_.sleep(kTryAgain, {.cancel = &self->stopping_})) continue;
    self->complain(opened.error().message() + ": the suppression list stops no mail");
    break;
  }
  self->opening_ = false;
  self->opened_.set();
}

async::Task<void> Suppression::clean(Suppression* self) {
  while (co_await self->loop_.sleep(kCleanEvery, {.cancel = &self->stopping_})) {
    auto gone =
        co_await self->writer_.run([store = self->store_, now = self->now()] { return store->collect(kCleaned, now); });
    if (!gone) self->complain(gone.error().message() + ": what has expired stays in the suppression list's file");
  }
}

async::Task<Result<Suppression::Outcome>> Suppression::change(Change change) {
  if (!co_await ready()) co_return fail_errno("suppression list", EAGAIN);
  if (waiting_.size() >= kMostWaiting) co_return fail_errno("suppression list", EBUSY);
  auto mine = std::make_shared<Waiting>(loop_, std::move(change));
  waiting_.push_back(mine);
  if (!std::exchange(writing_, true)) tasks_.spawn("suppression list: writing", write(this));
  (void)co_await mine->written.wait();
  co_return std::move(mine->outcome);
}

async::Task<void> Suppression::write(Suppression* self) {
  while (!self->waiting_.empty()) {
    std::vector<std::shared_ptr<Waiting>> batch;
    std::vector<Change> changes;
    while (!self->waiting_.empty() && batch.size() < kAtOnce) {
      batch.push_back(std::move(self->waiting_.front()));
      self->waiting_.pop_front();
      changes.push_back(batch.back()->change);
    }
    auto done =
        co_await self->writer_.run([store = self->store_, changes = std::move(changes), rules = self->options_.rules,
                                    now = self->now()] { return store->apply(changes, rules, now); });
    if (!done) self->complain(done.error().message() + ": changes of the suppression list are lost");
    for (std::size_t i = 0; i < batch.size(); ++i) {
      if (done) {
        self->say(batch[i]->change, (*done)[i]);
        batch[i]->outcome = std::move((*done)[i]);
      } else {
        batch[i]->outcome = std::unexpected(done.error());
      }
      batch[i]->written.set();
    }
  }
  self->writing_ = false;
}

void Suppression::say(const Change& change, const Outcome& outcome) {
  if (outcome.strangers)
    complain(
        "half of the suppression list came from notices and reports: no more are added by these (suppression_limit)");
  else if (outcome.full)
    complain("the suppression list is full: addresses are not added (suppression_limit)");
  if (std::holds_alternative<SuppressionStore::Heard>(change) || !outcome.record) return;
  if (others_) tell_others(outcome.key, *outcome.record);
  const auto [tenant, address] = suppression_names(outcome.key);
  const std::string owner = tenant.empty() ? std::string() : fmt::format(", tenant={}", tenant);
  if (std::holds_alternative<Remove>(change)) {
    if (outcome.known) log::info("suppression list: removed: to=<{}>{}", mail::logged(address), owner);
    return;
  }
  const SuppressionRecord& r = *outcome.record;
  if (r.state != SuppressionRecord::State::listed || (!outcome.added && outcome.known)) return;
  log::info("suppression list: added: to=<{}>{}, reason={}, until={} ({})", mail::logged(address), owner,
            word(r.reason), end_text(r.expires), r.text);
  metrics::suppression_added.add(static_cast<metrics::SuppressedFor>(r.reason));
  if (!events::wanted()) return;
  events::Event event(events::Type::suppressed, events::now());
  event.text(events::Field::to, address)
      .text(events::Field::tenant, tenant)
      .text(events::Field::reason, word(r.reason))
      .text(events::Field::reply, r.text);
  if (r.expires != 0) event.time(events::Field::expires, WallTime(seconds(r.expires)));
  events::tell(event);
}

void Suppression::complain(const std::string& line) {
  const SteadyTime time = loop_.now();
  if (complained_ != SteadyTime::min() && time < complained_ + kComplainEach) return;
  complained_ = time;
  warn_(line);
}

namespace {
/// Addresses are no names of keys that everybody at the server shall read.
std::string shared_name(const std::string& key) {
  std::string name;
  for (const char c : digest::hash(digest::Digest::sha256, key))
    name += fmt::format("{:02x}", static_cast<unsigned char>(c));
  return name;
}
}  // namespace

void Suppression::tell_others(const std::string& key, const SuppressionRecord& record) {
  const seconds left = record.expires == 0 ? kForever : seconds(record.expires - unix_seconds(now()));
  if (left.count() > 0) others_->tell(shared_name(key), encode(record), left);
}

async::Task<void> Suppression::hear(std::string key) {
  if (under_way_ >= kMostUnderWay) co_return;
  const UnderWay one(under_way_);
  const auto told = co_await others_->find(shared_name(key));
  if (!store_) co_return;  // it was given up meanwhile
  const auto here = co_await readers_.run([store = store_, key, now = now()] { return store->find(key, now); });
  if (!here) co_return;
  const auto there = told ? decode<SuppressionRecord>(*told) : std::nullopt;
  if (there && (!*here || (*here)->changed < there->changed))
    (void)co_await change(SuppressionStore::Heard{key, *there});
  else if (*here && others_->is_up() && (!there || there->changed < (*here)->changed))
    tell_others(key, **here);
}

async::Task<Result<std::optional<SuppressionRecord>>> Suppression::known(std::string key) {
  if (others_) co_await hear(key);
  if (!store_) co_return fail_errno("suppression list", EAGAIN);  // given up meanwhile
  co_return co_await readers_.run([store = store_, key, now = now()] { return store->find(key, now); });
}

async::Task<Result<bool>> Suppression::exempt(std::string sender, std::string tenant) {
  if (options_.exempt.empty()) co_return false;
  std::vector<std::string> keys;
  if (!tenant.empty()) keys.push_back("tenant:" + tenant);
  sender = to_lower(sender);
  keys.push_back(sender);
  const auto at = sender.rfind('@');
  std::string_view domain = at == sender.npos ? std::string_view() : std::string_view(sender).substr(at + 1);
  for (int labels = 0; !domain.empty() && labels < 10; ++labels) {
    keys.emplace_back(domain);
    const auto dot = domain.find('.');
    domain = dot == domain.npos ? std::string_view() : domain.substr(dot + 1);
  }
  co_return co_await tables_.ask([maps = options_.exempt, keys = std::move(keys)]() -> Result<bool> {
    for (const std::string& key : keys) {
      auto value = maps.lookup(key);
      if (!value) return fail(std::move(value).error().within("suppression_exempt_maps"));
      if (!*value) continue;
      const std::string_view said = trim(**value);
      if (iequals(said, "ok")) return true;
      if (iequals(said, "dunno")) return false;
      return fail(map::MapError::syntax,
                  "suppression_exempt_maps: " + key + ": " + printable(said, 40) + " is neither OK nor DUNNO");
    }
    return false;
  });
}

async::Task<Answer> Suppression::ask(Ask question) {
  Answer answer{.request = question.request};
  if (question.sender.empty()) co_return answer;
  std::vector<std::string> keys{suppression_key(question.tenant, question.recipient)};
  if (!question.tenant.empty()) keys.push_back(suppression_key({}, question.recipient));
  std::erase(keys, "");
  if (keys.empty()) co_return answer;  // cannot be on the list
  answer.standing = Standing::unknown;
  if (!co_await ready()) co_return answer;
  for (const std::string& key : keys) {
    const auto found = co_await known(key);
    if (!found) {
      complain(found.error().message() + ": the suppression list stops no mail");
      co_return answer;
    }
    if (!*found || !(*found)->listed(now())) continue;
    answer.reason = (*found)->reason;
    const auto spared = co_await exempt(question.sender, question.tenant);
    if (!spared) {
      complain(spared.error().message() + ": mail for addresses of the suppression list waits");
      answer.standing = Standing::undecided;
    } else {
      answer.standing = *spared ? Standing::free : Standing::listed;
    }
    co_return answer;
  }
  answer.standing = Standing::free;
  co_return answer;
}

async::Task<bool> Suppression::record(Failure failure) {
  const std::string key = suppression_key(failure.tenant, failure.address);
  if (key.empty()) co_return true;  // nothing can be remembered of it
  if (others_ && co_await ready()) co_await hear(key);
  const auto done = co_await change(std::move(failure));
  co_return done.has_value();
}

async::Task<Done> Suppression::order(Add add) {
  const std::uint64_t request = add.request;
  auto done = co_await change(std::move(add));
  if (!done) co_return Done{request, false, done.error().message()};
  co_return Done{request, done->known, done->error};
}

async::Task<Done> Suppression::order(Remove remove) {
  const std::uint64_t request = remove.request;
  if (const auto key = suppression_key(remove.tenant, remove.address); others_ && !key.empty() && co_await ready())
    co_await hear(key);
  auto done = co_await change(std::move(remove));
  if (!done) co_return Done{request, false, done.error().message()};
  co_return Done{request, done->known, done->error};
}

async::Task<Listed> Suppression::list(List request) {
  Listed out;
  out.request = request.request;
  const std::string key =
      request.tenant.empty() && request.address.empty() ? "" : suppression_key(request.tenant, request.address);
  if (!co_await ready()) {
    out.error = "the list cannot be opened: the log says why";
    co_return out;
  }
  if (request.only) {
    if (key.empty()) co_return out;
    auto found = co_await known(key);
    if (!found)
      out.error = found.error().message();
    else if (*found && (*found)->state != SuppressionRecord::State::removed)
      out.entries.push_back(entry_of(key, **std::move(found)));
    co_return out;
  }
  const std::size_t most = std::clamp<std::size_t>(request.most, 1, kListed);
  auto page = co_await readers_.run([store = store_, key, watched = request.watched, most, now = now()] {
    return store->list(key, watched, most, now);
  });
  if (!page) {
    out.error = page.error().message();
    co_return out;
  }
  out.entries = std::move(page->entries);
  out.more = page->more;
  const auto [tenant, address] = suppression_names(page->after);
  out.after_tenant = tenant;
  out.after_address = address;
  co_return out;
}

async::Task<void> Suppression::finish() {
  stopping_now_ = true;
  stopping_.raise();
  (void)co_await tasks_.drained();
  store_.reset();
}

std::string Suppression::status_line() const {
  if (!store_) return opened_at_ == SteadyTime::min() ? std::string() : "suppression list: it cannot be opened";
  return fmt::format("suppression list: {} addresses, {} that failed and are not on it", store_->listed(),
                     store_->watched());
}

}  // namespace pen::anvil
