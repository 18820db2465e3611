#include "tools/signers.h"

#include <algorithm>
#include <set>
#include <utility>

#include "lib/base/text.h"

namespace pen::tools {
namespace {

using Opened = Result<std::shared_ptr<const signing::Signing>>;

class Finder {
 public:
  /// where: for faults.
  void look(const config::Settings& s, bool may_seal, const std::string& where) {
    const auto fault = [&](const Error& error) {
      if (faults_.insert(error.message()).second) out_.faults.push_back(where + error.message());
    };
    const auto open = [&](Opened opened) -> Signers::Table* {
      if (!opened) {
        fault(opened.error());
        return nullptr;
      }
      return *opened ? &table_of(*std::move(opened)) : nullptr;
    };
    const bool seals = may_seal && !s.arc_seal_key.empty();
    out_.wanted = out_.wanted || s.dkim_signing || seals;
    if (s.dkim_signing) {
      auto signing = signing::Signing::open(s);
      // A table of senders is read with the first message.
      if (signing && *signing)
        if (const auto named = (*signing)->names("postmaster@localhost.invalid"); !named) fault(named.error());
      open(std::move(signing));
    }
    if (!seals) return;
    Signers::Table* table = open(signing::Signing::open_keys(s));
    if (table == nullptr) return;
    if (!table->seals(s.arc_seal_key)) table->sealing.push_back(s.arc_seal_key);
    if (auto key = table->signing->named_key(s.arc_seal_key); !key)
      fault(std::move(key).error().within("arc_seal_key"));
  }
  Signers take() { return std::move(out_); }

 private:
  /// The first one stays: of a table that signs and seals, the one with the dates.
  Signers::Table& table_of(std::shared_ptr<const signing::Signing> signing) {
    const auto known = std::ranges::find_if(
        out_.tables, [&](const auto& table) { return table.signing->key_table() == signing->key_table(); });
    if (known == out_.tables.end()) return out_.tables.emplace_back(Signers::Table{std::move(signing), {}});
    if (known->signing->rotation() == nullptr && signing->rotation() != nullptr) known->signing = std::move(signing);
    return *known;
  }

  Signers out_;
  std::set<std::string> faults_;
};

}  // namespace

bool Signers::Table::seals(std::string_view key) const {
  return std::ranges::any_of(sealing, [&](const std::string& name) { return iequals(name, key); });
}

Signers signers_of(const config::Config& config) {
  Finder finder;
  finder.look(config.settings(), true, "");
  for (const config::Service& service : config.master()) {
    const bool smtpd = service.command == "smtpd";
    if (!smtpd && service.command != "pickup" && service.command != "qmqpd" && service.command != "bounce") continue;
    // Any -o may be used in the values of others.
    if (!service.overrides.empty()) finder.look(config.with(service).settings(), smtpd, service.label() + ": ");
  }
  return finder.take();
}

}  // namespace pen::tools
