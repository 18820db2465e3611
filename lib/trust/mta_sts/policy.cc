#include "lib/trust/mta_sts/policy.h"

#include <algorithm>

#include "lib/base/text.h"

namespace pen::mta_sts {
namespace {

constexpr std::string_view kVersion = "v=STSv1";
constexpr std::size_t kMaxName = 32;  // of a field's name
constexpr std::size_t kMaxId = 32;
constexpr std::size_t kMaxHost = 253;
constexpr std::size_t kMaxShown = 100;

bool wsp(char c) { return c == ' ' || c == '\t'; }

std::string_view strip(std::string_view text) {
  while (!text.empty() && wsp(text.front())) text.remove_prefix(1);
  while (!text.empty() && wsp(text.back())) text.remove_suffix(1);
  return text;
}

bool field_name(std::string_view name) {
  if (name.empty() || name.size() > kMaxName || !ascii_alnum(name.front())) return false;
  return std::ranges::all_of(name, [](char c) { return ascii_alnum(c) || c == '_' || c == '-' || c == '.'; });
}

/// Text with this beginning is meant as an MTA-STS record; any other record at the name is ignored.
bool is_record(std::string_view text) {
  if (!text.starts_with(kVersion)) return false;
  text.remove_prefix(kVersion.size());
  while (!text.empty() && wsp(text.front())) text.remove_prefix(1);
  return text.starts_with(';');
}

bool label(std::string_view text) {
  if (text.empty() || text.size() > 63 || text.front() == '-' || text.back() == '-') return false;
  return std::ranges::all_of(text, [](char c) { return ascii_alnum(c) || c == '-'; });
}

bool pattern(std::string_view text) {
  if (text.size() > kMaxHost) return false;
  if (text.starts_with("*.")) text.remove_prefix(2);
  for (;;) {
    const auto dot = text.find('.');
    if (!label(text.substr(0, dot))) return false;
    if (dot == std::string_view::npos) return true;
    text.remove_prefix(dot + 1);
  }
}

std::unexpected<Error> bad(std::string what) { return fail(PolicyError::bad_policy, std::move(what)); }

std::string shown(std::string_view text) { return "\"" + printable(text, kMaxShown) + "\""; }

/// The fields in their order; of a repeated one the first counts.
struct Fields {
  std::optional<std::string_view> version, mode, max_age;
  std::vector<std::string> mx;

  void add(std::string_view name, std::string_view value) {
    std::optional<std::string_view>* once = name == "version"   ? &version
                                            : name == "mode"    ? &mode
                                            : name == "max_age" ? &max_age
                                                                : nullptr;
    if (once != nullptr) {
      if (!*once) *once = value;
    } else if (name == "mx") {
      // One that is no pattern names no host; the others still do, and the mode is what the domain asked for.
      if (value.ends_with('.')) value.remove_suffix(1);
      if (pattern(value)) mx.push_back(to_lower(value));
    }
  }
};

Result<seconds> read_age(std::string_view text) {
  const bool digits = !text.empty() && text.size() <= 10 && std::ranges::all_of(text, ascii_digit);
  if (!digits) return bad("max_age " + shown(text) + " is no number of seconds");
  return std::min(seconds(parse_unsigned(text).value_or(0)), kMaxAge);
}

Result<Mode> read_mode(std::string_view text) {
  for (const Mode mode : {Mode::none, Mode::testing, Mode::enforce})
    if (text == mode_name(mode)) return mode;
  return bad("mode " + shown(text) + " is not enforce, testing or none");
}

/// A clock that was set back must not make a policy last longer than it would from now.
seconds since(WallTime then, WallTime now) { return now > then ? std::chrono::floor<seconds>(now - then) : seconds(0); }

bool paused(const Known& known, WallTime now, seconds pause) {
  return known.failed != WallTime{} && since(known.failed, now) < pause;
}

seconds refresh_age(const Known& known, const Timing& timing) {
  return std::min(timing.refresh, known.policy->max_age / 2);
}

/// The pause before refetching a policy that is still valid is longer: a permanently broken policy host should not be
/// asked, and reported, every few minutes until the policy expires.
seconds refresh_pause(const Timing& timing) { return std::max(timing.retry, timing.refresh / 24); }

}  // namespace

std::string_view error_module(PolicyError) { return "mta_sts"; }
std::string_view describe(PolicyError) { return "not a valid policy"; }

std::string_view mode_name(Mode mode) {
  switch (mode) {
    case Mode::none:
      return "none";
    case Mode::testing:
      return "testing";
    case Mode::enforce:
      return "enforce";
  }
  return "unknown";
}

std::optional<std::string> parse_record(std::string_view text) {
  if (!is_record(text)) return std::nullopt;
  text.remove_prefix(kVersion.size());
  std::optional<std::string_view> id;
  // Each turn begins at a separator between fields; one more separator may end the record.
  for (;;) {
    text = strip(text);
    if (text.empty()) break;
    if (text.front() != ';') return std::nullopt;
    text = strip(text.substr(1));
    if (text.empty()) break;
    const std::string_view field = strip(text.substr(0, text.find(';')));
    text.remove_prefix(field.size());
    const auto equals = field.find('=');
    if (equals == std::string_view::npos) return std::nullopt;
    const std::string_view name = field.substr(0, equals), value = field.substr(equals + 1);
    const bool clean = std::ranges::all_of(value, [](char c) { return c > 0x20 && c < 0x7f && c != '='; });
    if (!field_name(name) || value.empty() || !clean) return std::nullopt;
    if (name == "id" && !id) id = value;
  }
  if (!id || id->size() > kMaxId || !std::ranges::all_of(*id, ascii_alnum)) return std::nullopt;
  return std::string(*id);
}

std::optional<std::string> read_records(std::span<const std::string> records) {
  const std::string* only = nullptr;
  for (const std::string& record : records) {
    if (!is_record(record)) continue;
    if (only != nullptr) return std::nullopt;
    only = &record;
  }
  return only == nullptr ? std::nullopt : parse_record(*only);
}

bool Policy::names_host(std::string_view host) const {
  if (host.ends_with('.')) host.remove_suffix(1);
  const auto dot = host.find('.');
  return std::ranges::any_of(mx, [&](const std::string& p) {
    if (!p.starts_with("*.")) return iequals(p, host);
    return dot != std::string_view::npos && dot > 0 && iequals(std::string_view(p).substr(2), host.substr(dot + 1));
  });
}

std::vector<std::string> Policy::lines() const {
  std::vector<std::string> out = {"version: STSv1", "mode: " + std::string(mode_name(mode))};
  for (const std::string& pattern : mx) out.push_back("mx: " + pattern);
  out.push_back("max_age: " + std::to_string(max_age.count()));
  return out;
}

Result<Policy> parse_policy(std::string_view text) {
  if (text.size() > kMaxPolicy) return bad("it is larger than 64 kilobytes");
  Fields fields;
  while (!text.empty()) {
    const auto end = text.find('\n');
    std::string_view line = text.substr(0, end);
    text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
    if (line.ends_with('\r')) line.remove_suffix(1);
    while (!line.empty() && wsp(line.back())) line.remove_suffix(1);
    if (line.empty()) continue;
    // A line out of its form says nothing; what it should have said is missing then.
    const auto colon = line.find(':');
    if (colon == std::string_view::npos || !field_name(line.substr(0, colon))) continue;
    const std::string_view value = strip(line.substr(colon + 1));
    const bool control = std::ranges::any_of(value, [](char c) {
      const auto byte = static_cast<unsigned char>(c);
      return byte < 0x20 || byte == 0x7f;
    });
    if (!value.empty() && !control) fields.add(line.substr(0, colon), value);
  }
  if (!fields.version) return bad("it has no version");
  if (*fields.version != "STSv1") return bad("version " + shown(*fields.version) + " is not STSv1");
  if (!fields.mode) return bad("it has no mode");
  if (!fields.max_age) return bad("it has no max_age");
  Policy policy;
  PEN_TRY_ASSIGN(policy.mode, read_mode(*fields.mode));
  PEN_TRY_ASSIGN(policy.max_age, read_age(*fields.max_age));
  if (fields.mx.empty() && policy.mode != Mode::none) return bad("it names no mx");
  policy.mx = std::move(fields.mx);
  return policy;
}

WallTime Known::expires() const { return policy ? fetched + policy->max_age : WallTime{}; }

Plan plan(const Known& known, const std::optional<std::string>& id, WallTime now, const Timing& timing) {
  Plan p;
  p.use = known.valid(now);
  if (!p.use) {
    // Without a record there is nothing to fetch; after a failure there must be a pause.
    const bool again = known.attempted_id == id && paused(known, now, timing.retry);
    if (id && !again) p.fetch = Plan::Fetch::first;
    return p;
  }
  if (id && *id != known.id) {
    if (!(known.attempted_id == *id && paused(known, now, timing.retry))) p.fetch = Plan::Fetch::first;
    return p;
  }
  if (since(known.fetched, now) >= refresh_age(known, timing) && !paused(known, now, refresh_pause(timing)))
    p.fetch = Plan::Fetch::behind;
  return p;
}

bool wants_refresh(const Known& known, WallTime now, const Timing& timing, seconds unused) {
  // A policy that mail uses daily is refreshed by the mail; this is for domains that rarely get mail.
  return known.valid(now) && known.policy->mode != Mode::none &&
         since(known.fetched, now) >= known.policy->max_age / 2 && !paused(known, now, refresh_pause(timing)) &&
         since(known.used, now) < unused;
}

bool is_garbage(const Known& known, WallTime now, const Timing& timing) {
  return !known.valid(now) && !paused(known, now, timing.retry);
}

}  // namespace pen::mta_sts
