#include "lib/trust/signing/signing.h"

#include <fmt/format.h>

#include <algorithm>

#include "lib/base/idn/domain.h"
#include "lib/base/idn/fold.h"
#include "lib/base/text.h"
#include "lib/mail/address.h"

namespace pen::signing {
namespace {

using Source = dkim::OpendkimConf::Source;

// Keys that are tried at start: reading one takes some 0.1 ms. pendkim check tries all.
constexpr std::size_t kLookedAt = 1000;

Result<std::shared_ptr<std::vector<dkim::DataEntry>>> load_lines(const std::string& path) {
  PEN_TRY_ASSIGN(const auto text, map::read_table_file(path));
  return std::make_shared<std::vector<dkim::DataEntry>>(dkim::parse_data_set(text));
}
Result<std::shared_ptr<dkim::SigningTable>> load_senders(const std::string& path, bool patterns) {
  PEN_TRY_ASSIGN(const auto text, map::read_table_file(path));
  return std::make_shared<dkim::SigningTable>(dkim::SigningTable::of(dkim::parse_data_set(text), patterns));
}
Result<std::shared_ptr<dkim::SigningTable>> load_plain(const std::string& path) { return load_senders(path, false); }
Result<std::shared_ptr<dkim::SigningTable>> load_patterns(const std::string& path) { return load_senders(path, true); }

Result<map::MapList> open_maps(const std::string& value, const config::Settings& s, const char* name) {
  // Values choose keys: no other process, and nobody on the network path, may name them.
  auto maps = map::MapList::open(value, {.default_type = s.default_database_type, .served = false, .setting = name});
  if (!maps) return fail(std::move(maps).error().within(name));
  if (maps->blocking()) return fail(SigningError::waits, name);
  return maps;
}

bool within(std::string_view domain, std::string_view parent, bool sub_domains) {
  return sub_domains ? idn::within_domain(domain, parent) : idn::same_domain(domain, parent);
}

/// A list of hosts of an opendkim.conf. notes: gets its faults.
Result<dkim::PeerList> hosts_of(const Source& source, const char* option, std::vector<std::string>& notes) {
  std::vector<std::string> entries;
  if (source.kind == Source::Kind::list) {
    for (const auto word : split(source.text)) entries.emplace_back(word);
  } else if (source.kind == Source::Kind::other) {
    return fail(SigningError::settings, fmt::format("{}: {}: only a file or a list is read here", option, source.text));
  } else {
    PEN_TRY_ASSIGN(const auto text, map::read_table_file(source.text));
    for (auto& entry : dkim::parse_data_set(text)) entries.push_back(std::move(entry.key));
  }
  auto list = dkim::PeerList::of(entries, source.kind == Source::Kind::patterns);
  const std::string where = source.kind == Source::Kind::list ? std::string(option) : source.text;
  for (const std::string& fault : list.faults()) notes.push_back(where + ": " + fault);
  return list;
}

}  // namespace

std::string_view error_module(SigningError) { return "dkim"; }
std::string_view describe(SigningError e) {
  switch (e) {
    case SigningError::settings:
      return "cannot be used";
    case SigningError::no_key:
      return "there is no such key in the key table";
    case SigningError::too_many:
      return "more than 8 keys sign for this address";
    case SigningError::waits:
      return "a table that another process serves cannot be used here";
  }
  return "unknown";
}

Result<std::shared_ptr<const Signing>> Signing::open(const config::Settings& s, const Clock& clock,
                                                     std::shared_ptr<RemoteKeys> elsewhere) {
  if (!s.dkim_signing) return nullptr;
  const auto signing = std::make_shared<Signing>();
  signing->elsewhere_ = std::move(elsewhere);
  PEN_TRY(s.dkim_opendkim_conf.empty() ? signing->read_settings(s, clock) : signing->read_conf(s, clock));
  if (!signing->on_) return nullptr;
  if (!s.dkim_key_dates.empty()) signing->rotation_ = std::make_unique<const Rotation>(s.dkim_key_dates, clock);
  return signing;
}

Result<std::shared_ptr<const Signing>> Signing::open_keys(const config::Settings& s, const Clock& clock,
                                                          std::shared_ptr<RemoteKeys> elsewhere) {
  const auto signing = std::make_shared<Signing>();
  signing->by_name_ = true;
  signing->elsewhere_ = std::move(elsewhere);
  PEN_TRY(s.dkim_opendkim_conf.empty() ? signing->read_settings(s, clock) : signing->read_conf(s, clock));
  return signing;
}

Result<void> Signing::read_settings(const config::Settings& s, const Clock& clock) {
  const auto form = dkim::Canonicalization::parse(s.dkim_canonicalization);
  if (!form) return fail(SigningError::settings, "dkim_canonicalization = " + printable(s.dkim_canonicalization, 60));
  form_ = {.canonicalization = *form,
           .fields = s.dkim_sign_headers,
           .oversigned = s.dkim_oversign_headers,
           .lifetime = std::chrono::duration_cast<seconds>(s.dkim_signature_ttl)};
  keys_ = file_keys(true, clock);
  if (s.dkim_key_table.empty() || (s.dkim_signing_table.empty() && !by_name_))
    return fail(SigningError::settings,
                by_name_ ? "it needs dkim_key_table or dkim_opendkim_conf"
                         : "dkim_signing needs dkim_key_table and dkim_signing_table, or dkim_opendkim_conf");
  const auto source = [](const std::string& value) {
    Source from = Source::of(value);
    return from.kind == Source::Kind::list ? Source{Source::Kind::other, value} : from;
  };
  std::optional<Source> senders;
  if (!by_name_) senders = source(s.dkim_signing_table);
  PEN_TRY(open_tables(source(s.dkim_key_table), senders, s, clock));
  if (by_name_) return {};
  const bool parents = list_contains(join(s.parent_domain_matches_subdomains), "dkim_trusted_hosts");
  auto trusted =
      map::MatchList::open(map::MatchList::Kind::host, join(s.dkim_trusted_hosts),
                           {.parent_domains = parents,
                            .open = {.default_type = s.default_database_type, .setting = "dkim_trusted_hosts"},
                            .keep_faulty = true});  // as mynetworks, which it is by default
  if (!trusted) return fail(std::move(trusted).error().within("dkim_trusted_hosts"));
  if (trusted->blocking()) return fail(SigningError::waits, "dkim_trusted_hosts");
  for (const std::string& fault : trusted->faults())
    notes_.push_back("dkim_trusted_hosts: " + fault + ": mail of clients that it is compared with is put off");
  trusted_ = *std::move(trusted);
  return {};
}

Result<void> Signing::read_conf(const config::Settings& s, const Clock& clock) {
  const std::string& file = s.dkim_opendkim_conf;
  auto text = map::read_table_file(file);
  if (!text) return fail(std::move(text).error().within("dkim_opendkim_conf"));
  const auto read = [](const std::string& name) { return map::read_table_file(name); };
  PEN_TRY_ASSIGN(auto conf, dkim::OpendkimConf::parse(*text, file, read));
  notes_ = std::move(conf.notes);
  on_ = conf.signs;
  if (!on_ && !by_name_) return {};
  form_.canonicalization = *dkim::Canonicalization::parse(conf.canonicalization);
  form_.fields = conf.sign_headers ? *std::move(conf.sign_headers) : s.dkim_sign_headers;
  form_.oversigned = conf.oversign_headers ? *std::move(conf.oversign_headers) : std::vector<std::string>();
  std::erase_if(form_.fields, [&](const std::string& name) {
    return std::ranges::any_of(conf.omit_headers, [&](const std::string& omitted) { return iequals(name, omitted); });
  });
  author_fields_ = std::move(conf.sender_headers);
  // h= without From is no signature.
  const auto named = [](const std::vector<std::string>& names) {
    return std::ranges::any_of(names, [](const std::string& n) { return iequals(n, "from"); });
  };
  if (!named(form_.fields)) form_.fields.insert(form_.fields.begin(), "From");
  form_.lifetime = seconds(conf.signature_ttl);
  all_matches_ = conf.all_matches;
  keys_ = file_keys(conf.safe_keys, clock);
  if (!conf.signing_table && !(by_name_ && conf.key_table)) {
    if (conf.domains.empty() || conf.selector.empty() || conf.key_file.empty())
      return fail(SigningError::settings, file + ": neither SigningTable nor Domain, Selector and KeyFile");
    key_file_name_ = file;
    one_key_ = {std::move(conf.domains), std::move(conf.selector), std::move(conf.key_file), conf.sub_domains,
                conf.domain_patterns};
  } else {
    if (!conf.key_table) return fail(SigningError::settings, file + ": SigningTable without KeyTable");
    PEN_TRY(open_tables(conf.key_table, by_name_ ? std::nullopt : conf.signing_table, s, clock));
  }
  if (by_name_) return {};
  PEN_TRY_ASSIGN(peers_, hosts_of(conf.internal_hosts.value_or(Source{.text = "127.0.0.1"}), "InternalHosts", notes_));
  if (conf.ignored_hosts) {
    PEN_TRY_ASSIGN(ignored_, hosts_of(*conf.ignored_hosts, "ExternalIgnoreList", notes_));
  }
  return {};
}

Result<void> Signing::open_tables(const std::optional<Source>& keys, const std::optional<Source>& senders,
                                  const config::Settings& s, const Clock& clock) {
  key_file_name_ = keys->text;
  for (const auto& [source, name] : {std::pair(&keys, "KeyTable"), {&senders, "SigningTable"}})
    if (*source && (*source)->kind == Source::Kind::list)
      return fail(SigningError::settings,
                  fmt::format("{}: {}: only a file or a table is read here", name, (*source)->text));
  if (keys->kind == Source::Kind::other) {
    PEN_TRY_ASSIGN(key_table_, open_maps(keys->text, s, "dkim_key_table"));
  } else {
    key_table_ = std::make_shared<map::Reloading<Lines>>(keys->text, clock, load_lines);
  }
  if (!senders) return {};
  sender_file_name_ = senders->text;
  if (senders->kind == Source::Kind::other) {
    PEN_TRY_ASSIGN(sender_table_, open_maps(senders->text, s, "dkim_signing_table"));
  } else {
    sender_table_ = std::make_shared<map::Reloading<dkim::SigningTable>>(
        senders->text, clock, senders->kind == Source::Kind::patterns ? load_patterns : load_plain);
  }
  return {};
}

Result<bool> Signing::trusts(std::string_view name, std::string_view address) const {
  if (peers_) return peers_->matches(name, address);
  return trusted_.matches_host(name, address);
}

Result<std::vector<Signing::Found>> Signing::look_up(std::string_view from) const {
  std::vector<Found> out;
  if (const auto* maps = std::get_if<map::MapList>(&sender_table_)) {
    bool whole = true;
    for (const auto& key : dkim::signing_keys(idn::fold(from))) {
      PEN_TRY_ASSIGN(auto value, maps->lookup(key, whole));
      whole = false;
      if (!value) continue;
      out.push_back({*std::move(value), sender_file_name_ + ": " + key});
      if (!all_matches_) break;
    }
  } else if (const auto* file = std::get_if<std::shared_ptr<map::Reloading<dkim::SigningTable>>>(&sender_table_)) {
    PEN_TRY_ASSIGN(const auto table, (*file)->current());
    for (const auto* hit : table->find(from, all_matches_))
      out.push_back({hit->value, fmt::format("{}:{}", sender_file_name_, hit->line)});
  }
  return out;
}

Result<std::optional<Signing::Found>> Signing::key_value(const std::string& name) const {
  if (const auto* maps = std::get_if<map::MapList>(&key_table_)) {
    PEN_TRY_ASSIGN(auto value, maps->lookup(name));
    if (!value) return std::nullopt;
    return Found{*std::move(value), key_file_name_ + ": " + name};
  }
  PEN_TRY_ASSIGN(const auto lines, std::get<std::shared_ptr<map::Reloading<Lines>>>(key_table_)->current());
  const auto line = std::ranges::find_if(*lines, [&](const dkim::DataEntry& e) { return iequals(e.key, name); });
  if (line == lines->end()) return std::nullopt;
  return Found{line->value, fmt::format("{}:{}", key_file_name_, line->line)};
}

Result<std::shared_ptr<const dkim::PrivateKey>> Signing::key(const dkim::KeyEntry& entry) const {
  if (!entry.is_file()) return dkim::PrivateKey::parse(entry.key);
  if (entry.key.starts_with('/')) return keys_->key(entry.key);
  // As with include files: beside the table.
  const auto slash = key_file_name_.rfind('/');
  return keys_->key(key_file_name_.substr(0, slash == std::string::npos ? 0 : slash + 1) + entry.key);
}

std::string Signing::OneKey::signs_for(std::string_view domain, const std::string& own) const {
  if (patterns ? dkim::wildcard_match(own, domain) : own == "*") return std::string(domain);
  return !patterns && within(domain, own, sub_domains) ? to_lower(own) : std::string();
}

Result<std::vector<dkim::SignWith>> Signing::with_one_key(std::string_view domain) const {
  for (const auto& own : one_key_->domains) {
    std::string signs = one_key_->signs_for(domain, own);
    if (signs.empty()) continue;
    dkim::SignWith with;
    if (elsewhere_) {
      PEN_TRY_ASSIGN(with, find_key(own, own, key_file_name_));
    } else {
      PEN_TRY_ASSIGN(with.key, keys_->key(one_key_->file));
      with.selector = one_key_->selector;
    }
    with.domain = std::move(signs);
    return std::vector<dkim::SignWith>{std::move(with)};
  }
  return std::vector<dkim::SignWith>();
}

Result<bool> Signing::names(std::string_view from) const {
  const std::string domain = to_lower(mail::domain_part(from));
  if (domain.empty()) return false;
  if (one_key_)
    return std::ranges::any_of(one_key_->domains,
                               [&](const std::string& own) { return !one_key_->signs_for(domain, own).empty(); });
  PEN_TRY_ASSIGN(const auto found, look_up(from));
  return !found.empty();
}

Result<std::vector<dkim::SignWith>> Signing::keys_for(std::string_view from) const {
  const std::string domain = to_lower(mail::domain_part(from));
  if (domain.empty()) return std::vector<dkim::SignWith>();
  if (one_key_) return with_one_key(domain);
  std::vector<dkim::SignWith> out;
  PEN_TRY_ASSIGN(const auto found, look_up(from));
  struct Wanted {
    dkim::SigningEntry entry;
    const std::string& where;
  };
  std::vector<Wanted> wanted;
  for (const auto& hit : found)
    for (auto& entry : dkim::SigningEntry::parse(hit.value, domain)) wanted.push_back({std::move(entry), hit.where});
  if (rotation_ && !wanted.empty()) {
    std::vector<std::string> names;
    for (const Wanted& one : wanted) names.push_back(one.entry.key);
    PEN_TRY_ASSIGN(const auto due, rotation_->due(names));
    std::vector<Wanted> now;
    for (const std::size_t i : due) now.push_back(wanted[i]);
    wanted.swap(now);
  }
  for (Wanted& one : wanted) {
    PEN_TRY_ASSIGN(auto with, find_key(one.entry.key, domain, one.where));
    if (out.size() == kMostKeys) return fail(SigningError::too_many, one.where);
    // An i= that is not of the domain makes no valid signature: OpenDKIM leaves it out too.
    if (within(mail::domain_part(one.entry.signer), with.domain, true)) with.identity = std::move(one.entry.signer);
    out.push_back(std::move(with));
  }
  return out;
}

Result<dkim::SignWith> Signing::named_key(const std::string& name) const {
  if (one_key_ && !elsewhere_) {
    const auto& own = one_key_->domains;
    if (std::ranges::none_of(own, [&](const std::string& domain) { return iequals(domain, name); }))
      return fail(SigningError::no_key, key_file_name_ + ": " + printable(name, 100));
    PEN_TRY_ASSIGN(auto private_key, keys_->key(one_key_->file));
    return dkim::SignWith{.key = std::move(private_key), .domain = to_lower(name), .selector = one_key_->selector};
  }
  return find_key(name, "", key_file_name_);
}

Result<dkim::SignWith> Signing::find_key(const std::string& name, const std::string& domain,
                                         const std::string& where) const {
  if (elsewhere_ && elsewhere_->lists(key_file_name_)) {
    auto found = elsewhere_->find(key_file_name_, name);
    if (!found) return fail(std::move(found).error().within(where));
    if (!*found) {
      elsewhere_->refresh();  // the table may have grown
      return fail(SigningError::no_key, where + ": " + printable(name, 100));
    }
    return dkim::SignWith{.key = std::move((*found)->key),
                          .domain = std::move((*found)->domain),
                          .selector = std::move((*found)->selector)};
  }
  PEN_TRY_ASSIGN(const auto line, key_value(name));
  if (!line) return fail(SigningError::no_key, where + ": " + printable(name, 100));
  PEN_TRY_ASSIGN(auto entry, dkim::KeyEntry::parse(line->value, domain, line->where));
  auto private_key = key(entry);
  if (!private_key) return fail(std::move(private_key).error().within(line->where));
  return dkim::SignWith{
      .key = *std::move(private_key), .domain = std::move(entry.domain), .selector = std::move(entry.selector)};
}

bool Signing::remote(const dkim::Signer& signer) const {
  return std::ranges::any_of(signer.keys(), [this](const dkim::SignWith& with) { return remote(*with.key); });
}

bool Signing::remote(const dkim::SigningKey& key) const {
  return elsewhere_ && dynamic_cast<const dkim::PrivateKey*>(&key) == nullptr;
}

async::Task<Result<std::string>> Signing::sign(const dkim::SigningKey& key, std::string digest,
                                               async::Until until) const {
  return elsewhere_->sign(key, std::move(digest), until);
}

Result<bool> Signing::listable() const {
  if (one_key_) return true;
  const auto* file = std::get_if<std::shared_ptr<map::Reloading<Lines>>>(&key_table_);
  if (file == nullptr) return false;
  PEN_TRY_ASSIGN(const auto lines, (*file)->current());
  return std::ranges::none_of(*lines, [](const dkim::DataEntry& line) { return line.value.contains('%'); });
}

Result<std::vector<Signing::Named>> Signing::named_keys() const {
  std::vector<Named> out;
  if (one_key_) {
    for (const auto& domain : one_key_->domains)
      out.push_back({domain, {.domain = domain, .selector = one_key_->selector, .key = one_key_->file}});
    return out;
  }
  const auto* file = std::get_if<std::shared_ptr<map::Reloading<Lines>>>(&key_table_);
  if (file == nullptr) return out;  // a table cannot be listed
  PEN_TRY_ASSIGN(const auto lines, (*file)->current());
  for (const auto& line : *lines) {
    if (line.value.contains('%')) continue;
    std::string where = fmt::format("{}:{}", key_file_name_, line.line);
    PEN_TRY_ASSIGN(auto entry, dkim::KeyEntry::parse(line.value, "", where));
    out.push_back({line.key, std::move(entry), std::move(where)});
  }
  return out;
}

std::vector<std::string> Signing::warnings() const {
  std::vector<std::string> out = notes_;
  const auto waits = [&](const Error& error) { out.push_back(error.message() + ": mail that needs it is put off"); };
  if (auto found = look_up("postmaster@localhost.invalid"); !found) waits(found.error());
  if (const auto* maps = std::get_if<map::MapList>(&key_table_))
    for (const auto& problem : maps->problems()) waits(problem);
  if (rotation_)
    if (const auto dates = rotation_->table(); !dates) waits(dates.error());
  if (elsewhere_) return out;  // the key process says it
  const auto named = named_keys();
  if (!named) {
    waits(named.error());
    return out;
  }
  std::size_t looked = 0;
  for (const auto& one : *named) {
    if (++looked > kLookedAt) break;
    if (auto private_key = key(one.entry); !private_key) waits(private_key.error());
  }
  return out;
}

}  // namespace pen::signing
