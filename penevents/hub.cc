#include "penevents/hub.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "lib/base/hidden.h"
#include "lib/base/log.h"
#include "lib/base/text.h"
#include "lib/net/https/client.h"
#include "penevents/accounting.h"
#include "penevents/json.h"
#include "penevents/webhook.h"

namespace pen::penevents {

using events::Event;
using events::Field;
using events::Type;

namespace {

constexpr std::size_t kMaxBatch = 4 * 1024 * 1024;  // bytes
constexpr milliseconds kSettle{130};                // longer than programs gather
constexpr std::size_t kMaxWaiting = 4 * 1024 * 1024;
constexpr seconds kComplainEach{60}, kTidyEach{60};

Result<std::string> checked_path(std::string_view setting, const std::string& path) {
  if (path.starts_with('/')) return path;
  return fail(config::ConfigError::bad_value, fmt::format("{}: \"{}\" is no absolute path", setting, path));
}

Result<Types> types_of(std::string_view setting, const std::vector<std::string>& words) {
  auto types = parse_types(words);
  if (!types)
    return fail(config::ConfigError::bad_value, fmt::format("{}: no such type of events: {}", setting, types.error()));
  return *types;
}

Result<void> check_webhooks(const std::vector<std::string>& urls) {
  if (urls.size() > Hub::kMaxHooks)
    return fail(config::ConfigError::bad_value, fmt::format("event_webhooks: more than {} URLs", Hub::kMaxHooks));
  for (const std::string& url : urls)
    if (!url.starts_with("https://") && !url.starts_with("http://"))
      return fail(config::ConfigError::bad_value,
                  fmt::format("event_webhooks: {} is no URL of http or https", without_user(url)));
  return {};
}

}  // namespace

Result<void> Hub::check(const config::Settings& s) {
  PEN_TRY(check_webhooks(s.event_webhooks));
  PEN_TRY(types_of("event_log_types", s.event_log_types));
  PEN_TRY(types_of("event_webhook_types", s.event_webhook_types));
  if (!s.event_log_file.empty()) PEN_TRY(checked_path("event_log_file", s.event_log_file));
  if (!s.event_accounting_file.empty()) PEN_TRY(checked_path("event_accounting_file", s.event_accounting_file));
  return {};
}

Hub::Hub(service::Context& context, std::string secret, std::size_t hooks)
    : context_(context),
      loop_(context.loop()),
      settings_(context.settings()),
      secret_(std::move(secret)),
      directory_(settings_.data_directory + "/events"),
      pool_(loop_, hooks + 1),
      more_(loop_),
      renamed_(loop_),
      recent_(static_cast<std::size_t>(settings_.event_recent_limit)) {}

Result<std::shared_ptr<Hub>> Hub::open(service::Context& context, std::string secret) {
  PEN_TRY(check(context.settings()));
  std::shared_ptr<Hub> hub(new Hub(context, std::move(secret), context.settings().event_webhooks.size()));
  PEN_TRY(hub->open_files());
  PEN_TRY(hub->open_hooks());
  return hub;
}

Result<void> Hub::open_files() {
  PEN_TRY_ASSIGN(log_types_, types_of("event_log_types", settings_.event_log_types));
  const WallTime now = loop_.clock().wall_now();
  const auto options = [this](std::string path, std::string_view header) {
    return RotatingOptions{.path = std::move(path),
                           .header = std::string(header),
                           .max_size = static_cast<std::uint64_t>(settings_.event_log_rotate_size),
                           .max_age = std::chrono::ceil<seconds>(settings_.event_log_rotate_time)};
  };
  if (!settings_.event_log_file.empty()) {
    PEN_TRY_ASSIGN(auto path, checked_path("event_log_file", settings_.event_log_file));
    PEN_TRY_ASSIGN(log_, RotatingFile::open(options(std::move(path), {}), now));
  }
  if (!settings_.event_accounting_file.empty()) {
    PEN_TRY_ASSIGN(auto path, checked_path("event_accounting_file", settings_.event_accounting_file));
    PEN_TRY_ASSIGN(accounting_, RotatingFile::open(options(std::move(path), accounting_header()), now));
  }
  return {};
}

Result<void> Hub::open_hooks() {
  PEN_TRY_ASSIGN(hook_types_, types_of("event_webhook_types", settings_.event_webhook_types));
  if (settings_.event_webhooks.empty()) return {};
  PEN_TRY_ASSIGN(backlog_,
                 Backlog::open(directory_, static_cast<std::uint64_t>(settings_.event_webhook_backlog_limit)));
  for (const std::string& url : settings_.event_webhooks) {
    const auto known = load_position(directory_, url);
    Hook hook{.url = url, .shown = without_user(url)};
    hook.position = std::clamp(known.value_or(backlog_->end()), backlog_->begin(), backlog_->end());
    if (!known) PEN_TRY(save_position(directory_, url, hook.position));
    hooks_.push_back(std::move(hook));
  }
  forget_others(directory_, settings_.event_webhooks);
  return {};
}

void Hub::start() {
  for (std::size_t i = 0; i < hooks_.size(); ++i)
    loop_.spawn("events for " + hooks_[i].shown, serve_hook(shared_from_this(), i));
  if (log_ || accounting_) loop_.spawn("renamed files", keep_tidy(shared_from_this()));
  tell(Event(Type::started, loop_.clock().wall_now()));
}

void Hub::end() {
  settle();
  tell(Event(Type::stopped, loop_.clock().wall_now()));
}

bool Hub::take(const ipc::events::Told& told, std::function<void()> written) {
  if (told.dropped > 0) tell_dropped(told.dropped, told.program, "more than penevents could take");
  auto frame = std::make_shared<const Frame>(
      Frame{std::string(told.events), std::string(told.program), std::string(told.service), told.pid});
  waiting_bytes_ += frame->events.size();
  unanswered_.push_back(std::move(written));
  std::string_view rest = frame->events;
  while (auto seen = events::next(rest)) waiting_.push_back({*std::move(seen), frame, waiting_.size()});
  const bool whole = rest.empty();
  if (!whole) ++malformed_;
  if (waiting_bytes_ >= kMaxWaiting)
    settle();
  else
    settle_soon();
  return whole;
}

void Hub::settle_soon() {
  if (!settling_) settling_ = loop_.call_at(loop_.now() + kSettle, [this] { settle(); });
}

void Hub::settle() {
  settling_.reset();
  std::ranges::sort(waiting_, {}, [](const Waiting& w) { return std::pair(w.event.time, w.number); });
  for (const auto& w : waiting_) add(w.event, {w.frame->program, w.frame->service, w.frame->pid});
  waiting_.clear();
  waiting_bytes_ = 0;
  write_out();
  for (const auto& written : std::exchange(unanswered_, {})) written();
}

void Hub::tell(const Event& event) {
  std::string blob;
  event.append_to(blob);
  std::string_view rest = blob;
  if (const auto seen = events::next(rest)) add(*seen, {"penevents", context_.service(), 0});
  write_out();
}

void Hub::tell_dropped(std::uint64_t count, std::string_view program, std::string_view why) {
  lost_ += count;
  std::string blob;
  Event(Type::dropped, loop_.clock().wall_now()).number(Field::count, count).text(Field::reason, why).append_to(blob);
  std::string_view rest = blob;
  if (const auto seen = events::next(rest)) add(*seen, {program, {}, 0});
  settle_soon();
}

/// Ids begin at the clock's microseconds, so that they grow over a restart although nobody keeps the last one.
void Hub::add(const events::Seen& event, const Origins& origin) {
  if (last_id_ == 0) last_id_ = static_cast<std::uint64_t>(loop_.clock().wall_now().time_since_epoch().count());
  const std::uint64_t id = ++last_id_;
  ++taken_;
  std::string line = json_line(
      id, event, {settings_.myhostname, printable(origin.program, 64), printable(origin.service, 64), origin.pid});
  const auto type = static_cast<std::size_t>(event.type);
  if (backlog_ && hook_types_[type]) hook_lines_ += line;
  if (log_ && log_types_[type]) log_lines_ += line;
  if (accounting_)
    if (const auto row = accounting_line(event)) accounting_lines_ += *row;
  recent_.add({id, event.type, std::string(event.text(Field::queue_id)), std::move(line)});
}

void Hub::complain(const Error& error) {
  if (complained_ != SteadyTime{} && loop_.now() < complained_ + kComplainEach) return;
  complained_ = loop_.now();
  log::warning("events are lost: {}", error.message());
}

void Hub::write_out() {
  const WallTime now = loop_.clock().wall_now();
  // Each time: what moves a file may compress it at once, and what is written into it after that is lost.
  look_at_files();
  const auto write = [&](auto& where, std::string& lines, auto append) {
    if (lines.empty()) return;
    if (auto written = append(*where); !written) {
      lost_ += static_cast<std::uint64_t>(std::ranges::count(lines, '\n'));
      complain(written.error());
    }
    lines.clear();
  };
  write(backlog_, hook_lines_, [&](Backlog& b) { return b.append(hook_lines_); });
  write(log_, log_lines_, [&](RotatingFile& f) { return f.append(log_lines_, now); });
  write(accounting_, accounting_lines_, [&](RotatingFile& f) { return f.append(accounting_lines_, now); });
  for (auto* file : {&log_, &accounting_})
    if (*file) {
      if ((*file)->take_renamed()) renamed_.set();
      if (const auto trouble = (*file)->take_trouble())
        log::warning("{} goes on growing, for it cannot be renamed: {}", (*file)->path(), trouble->message());
    }
  if (backlog_) keep_bounds();
  more_.set();
}

/// The server gets none of the events up to there. Those that cannot be read cannot be counted: they are one at least.
void Hub::pass_over(Hook& hook, std::uint64_t to, std::string_view why) {
  const auto counted = backlog_->count_lines(hook.position, to);
  const bool known = counted && *counted > 0;
  const std::uint64_t lines = known ? *counted : 1;
  if (to == backlog_->end()) backlog_->end_segment();  // what is told of this would be written there
  hook.position = to;
  hook.dropped += lines;
  if (auto saved = save_position(directory_, hook.url, to); !saved) complain(saved.error());
  log::warning("{}: {}{} events are dropped: {}", hook.shown, known ? "" : "at least ", lines, why);
  tell_dropped(lines, "penevents", fmt::format("{}: {}", why, hook.shown));
}

/// A server that is away for too long loses its oldest events, a segment at a time.
void Hub::keep_bounds() {
  const auto limit = static_cast<std::uint64_t>(settings_.event_webhook_backlog_limit);
  std::uint64_t oldest = backlog_->end();
  for (Hook& hook : hooks_) {
    while (backlog_->end() - hook.position > limit) {
      const std::uint64_t to = backlog_->next_segment(hook.position);
      if (to <= hook.position) break;
      pass_over(hook, to, "more than event_webhook_backlog_limit wait");
    }
    oldest = std::min(oldest, hook.position);
  }
  if (auto dropped = backlog_->drop_before(oldest); !dropped) complain(dropped.error());
}

void Hub::look_at_files() {
  const WallTime now = loop_.clock().wall_now();
  for (auto* file : {&log_, &accounting_})
    if (*file)
      if (auto ok = (*file)->reopen_if_moved(now); !ok) complain(ok.error());
}

async::Task<void> Hub::keep_tidy(std::shared_ptr<Hub> hub) {
  const bool compress = hub->settings_.event_log_compress;
  const auto keep = static_cast<std::size_t>(hub->settings_.event_log_keep);
  async::Cancel& draining = hub->context_.draining();
  for (;;) {
    hub->renamed_.reset();
    for (const auto* file : {&hub->log_, &hub->accounting_}) {
      if (!*file) continue;
      auto work = [path = (*file)->path(), compress, keep] { return tidy(path, compress, keep); };
      if (const auto done = co_await hub->pool_.run(std::move(work)); !done)
        log::warning("renamed files of events: {}", done.error().message());
    }
    const auto woken =
        co_await hub->renamed_.wait({.deadline = hub->loop_.now() + 60 * kTidyEach, .cancel = &draining});
    if (!woken && woken.error().is(async::WaitError::cancelled)) co_return;
  }
}

/// One batch after the other, each until it is taken.
async::Task<void> Hub::serve_hook(std::shared_ptr<Hub> hub, std::size_t index) {
  Hook& hook = hub->hooks_[index];
  const auto& s = hub->settings_;
  const auto most = static_cast<std::size_t>(s.event_webhook_batch_limit);
  async::Cancel& draining = hub->context_.draining();
  while (!draining.raised()) {
    if (hook.position >= hub->backlog_->end()) {
      hub->more_.reset();
      (void)co_await hub->more_.wait({.deadline = kNever, .cancel = &draining});
      continue;
    }
    auto lines = hub->backlog_->read(hook.position, most, kMaxBatch);
    const SteadyTime full = hub->loop_.now() + s.event_webhook_batch_delay;
    while (lines && static_cast<std::size_t>(std::ranges::count(*lines, '\n')) < most && hook.failures == 0) {
      hub->more_.reset();
      const auto woken = co_await hub->more_.wait({.deadline = full, .cancel = &draining});
      if (draining.raised()) co_return;
      lines = hub->backlog_->read(hook.position, most, kMaxBatch);
      if (!woken) break;
    }
    if (!lines || lines->empty()) {  // unreadable, or damaged: what follows may be sound
      const Error why = lines ? Error::from_errno(EIO, hub->directory_) : lines.error();
      hub->pass_over(hook, hub->backlog_->next_segment(hook.position), why.message());
      continue;
    }
    co_await post(hub, index, *std::move(lines));
    if (hook.failures == 0) continue;
    const milliseconds wait = back_off(hook.failures, s.event_webhook_minimal_backoff, s.event_webhook_maximal_backoff);
    (void)co_await hub->loop_.sleep(wait, {.deadline = kNever, .cancel = &draining});
  }
}

async::Task<void> Hub::post(std::shared_ptr<Hub> hub, std::size_t index, std::string lines) {
  Hook& hook = hub->hooks_[index];
  const auto& s = hub->settings_;
  const std::uint64_t from = hook.position, to = from + lines.size();
  Batch batch = make_batch(lines);
  const std::size_t events = batch.events;
  https::Request request;
  request.url = hook.url;
  request.ca_file = s.event_webhook_tls_CAfile;
  request.agent = s.mail_name + "-penevents";
  request.limit = s.event_webhook_timeout;
  request.content_type = "application/json";
  request.fields = batch_fields(batch, hub->secret_, hub->loop_.clock().wall_now());
  request.clear_text = true;
  request.content = std::move(batch.body);
  auto work = [request = std::move(request)] { return https::ask(request); };
  const https::Answer answer = co_await hub->pool_.run(std::move(work));
  const bool heard = answer.outcome == https::Outcome::ok || answer.outcome == https::Outcome::body_too_large;
  if (!heard || answer.status < 200 || answer.status > 299) {
    const std::string why = heard ? fmt::format("status {}", answer.status) : printable(without_user(answer.why), 300);
    if (hook.failures++ == 0) log::warning("{}: events are not taken, and wait: {}", hook.shown, why);
    co_return;
  }
  if (hook.failures > 0) log::info("{}: events are taken again, after {} failures", hook.shown, hook.failures);
  hook.failures = 0;
  hook.sent += events;
  if (hook.position > to) co_return;  // moved on meanwhile: the backlog was full
  hook.position = to;
  if (auto saved = save_position(hub->directory_, hook.url, to); !saved) hub->complain(saved.error());
  hub->keep_bounds();
}

std::vector<std::string> Hub::status() const {
  std::vector<std::string> lines = {
      fmt::format("events: taken {}, lost {}, malformed frames {}, readers {}, too slow {}", taken_, lost_, malformed_,
                  readers_, late_readers_)};
  for (const Hook& hook : hooks_)
    lines.push_back(fmt::format("{}: events sent {}, dropped {}, bytes waiting {}, failures in a row {}", hook.shown,
                                hook.sent, hook.dropped, backlog_->end() - hook.position, hook.failures));
  return lines;
}

}  // namespace pen::penevents
