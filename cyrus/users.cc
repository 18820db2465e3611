#include "cyrus/users.h"

#include "lib/base/text.h"
#include "lib/map/file_map.h"
#include "lib/map/table_file.h"
#include "lib/map/table_text.h"

namespace pen::cyrus {
namespace {

/// The first hash of the tables' texts.
sasl::CryptHash first_hash(const std::string& tables, const std::string& default_type) {
  for (const map::PlainTable& table : map::plain_tables(tables, default_type)) {
    if (!table.indexed() && table.type != "texthash") continue;
    const auto text = map::read_table_file(table.name);
    if (!text) continue;
    for (const map::TableEntry& entry : map::parse_table(*text, table.name).entries)
      if (auto hash = sasl::CryptHash::parse(entry.value)) return *std::move(hash);
  }
  return sasl::nobodys_hash();
}

}  // namespace

Result<std::shared_ptr<const Users>> Users::open(const std::string& table, const std::string& default_type) {
  // Values decide who somebody is.
  PEN_TRY_ASSIGN(
      auto maps,
      map::MapList::open(
          table, {.default_type = default_type, .substitute = false, .served = false, .setting = "smtpd_sasl_path"}));
  return std::shared_ptr<const Users>(new Users(table, std::move(maps), first_hash(table, default_type)));
}

Users::Verdict Users::check(const std::string& name, const std::string& password) const {
  const std::string key = to_lower(name);
  const auto value = maps_.lookup(key);
  if (!value) return {.kind = Verdict::Kind::temporary, .note = value.error().message()};
  auto hash = *value ? sasl::CryptHash::parse(**value) : std::nullopt;
  const auto with = [&] {
    const std::scoped_lock lock(mutex_);
    if (hash) usual_ = *hash;
    return usual_;
  }();
  const bool fits = with.is_of(password);
  if (hash) return {.kind = fits ? Verdict::Kind::good : Verdict::Kind::wrong, .note = {}};
  Verdict wrong;
  if (*value && !sasl::CryptHash::locked(**value))
    wrong.note = table_ + ": the value of " + printable(key, 60) + " is no hash of crypt(3)";
  return wrong;
}

std::vector<std::string> Users::problems() const {
  std::vector<std::string> out;
  for (const Error& problem : maps_.problems()) out.push_back(problem.message());
  return out;
}

}  // namespace pen::cyrus
