#include "lib/trust/signing/rotation.h"

#include <fmt/format.h>

#include <algorithm>

#include "lib/base/date.h"
#include "lib/base/text.h"
#include "lib/trust/signing/signing.h"

namespace pen::signing {
namespace {

Result<std::shared_ptr<KeyDateTable>> load_dates(const std::string& path) {
  PEN_TRY_ASSIGN(const auto text, map::read_table_file(path));
  PEN_TRY_ASSIGN(auto table, KeyDateTable::parse(text, path));
  return std::make_shared<KeyDateTable>(std::move(table));
}

}  // namespace

Rotation::Rotation(std::string file, const Clock& clock) : clock_(clock), file_(std::move(file), clock, load_dates) {}

Result<std::shared_ptr<const KeyDateTable>> Rotation::table() const {
  auto table = file_.current();
  if (!table) return fail(std::move(table).error().within("dkim_key_dates"));
  return std::shared_ptr<const KeyDateTable>(*std::move(table));
}

Result<std::vector<std::size_t>> Rotation::due(const std::vector<std::string>& names) const {
  PEN_TRY_ASSIGN(const auto dates, table());
  return keys_due(names, *dates, [this](std::string_view name) { return seen(name); }, now());
}

std::vector<KeyDates> Rotation::wanted() const {
  std::vector<KeyDates> out;
  const auto dates = table();
  if (!dates) return out;  // due() says why
  for (const KeyDates& one : (*dates)->all()) {
    if (!one.from || *one.from > now() + kAhead || (one.until && *one.until <= now())) continue;
    if (seen(one.name) != RecordSeen::there) out.push_back(one);
  }
  // Those that are due first.
  std::ranges::sort(out, {}, [](const KeyDates& one) { return *one.from; });
  if (out.size() > kAtOnce) out.resize(kAtOnce);
  return out;
}

void Rotation::note(const std::string& name, RecordSeen seen) const {
  const std::lock_guard lock(mutex_);
  seen_[to_lower(name)] = seen;
}

void Rotation::note_silence(const KeyDates& key) const {
  if (!key.from || now() >= *key.from + kSettled) return;
  const std::lock_guard lock(mutex_);
  seen_.try_emplace(to_lower(key.name), RecordSeen::unanswered);
}

RecordSeen Rotation::seen(std::string_view name) const {
  const std::lock_guard lock(mutex_);
  const auto at = seen_.find(to_lower(name));
  return at == seen_.end() ? RecordSeen::unknown : at->second;
}

bool has_key(const dkim::KeyAnswer& answer, std::string_view public_bytes) {
  return std::ranges::any_of(answer.texts, [&](const std::string& text) {
    const auto record = dkim::KeyRecord::parse(text);
    return record && !record->key.empty() && record->key == public_bytes;
  });
}

async::Task<void> watch_records(async::Loop* loop, std::shared_ptr<const Signing> signing, LookForRecord look,
                                SayOfKeys say, async::Cancel* cancel) {
  const Rotation* rotation = signing ? signing->rotation() : nullptr;
  if (rotation == nullptr) co_return;
  std::map<std::string, WallTime> warned;
  do {
    for (const KeyDates& one : rotation->wanted()) {
      const auto warn = [&](const std::string& what) {
        if (*one.from > rotation->now()) return;
        auto& last = warned[one.name];
        if (rotation->now() < last + std::chrono::hours(24)) return;
        last = rotation->now();
        say(true, fmt::format("dkim: key {} should sign since {}, but {}: the key before it goes on, if there is one",
                              one.name, utc_text(*one.from), what));
      };
      const auto key = signing->named_key(one.name);
      if (!key) {
        warn(key.error().message());
        continue;
      }
      const std::string name = dkim::key_name(key->selector, key->domain);
      const auto answer = co_await look(name);
      if (answer.state == dkim::KeyAnswer::State::unknown) {
        rotation->note_silence(one);
        warn("DNS does not answer for " + name);
        continue;
      }
      const bool there = answer.state == dkim::KeyAnswer::State::found && has_key(answer, key->key->public_bytes());
      rotation->note(one.name, there ? RecordSeen::there : RecordSeen::missing);
      if (there)
        say(false, fmt::format("dkim: DNS has the record of key {}, which signs {} {}", one.name,
                               *one.from > rotation->now() ? "from" : "since", utc_text(*one.from)));
      else
        warn((answer.state == dkim::KeyAnswer::State::found ? "DNS has another key at " : "DNS has no record ") + name);
    }
  } while (co_await loop->sleep(Rotation::kLookEach, {.cancel = cancel}));
}

}  // namespace pen::signing
