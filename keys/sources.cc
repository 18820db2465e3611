#include "keys/sources.h"

#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <optional>
#include <tuple>

#include "lib/base/base64.h"
#include "lib/base/log.h"
#include "lib/base/text.h"
#include "lib/map/table_file.h"
#include "lib/meaning/smtpd/tls.h"
#include "lib/net/tls/context.h"
#include "lib/net/tls/error.h"
#include "lib/trust/dkim/key.h"

namespace pen::keys {
namespace {

using namespace ipc::keys;

std::string text_of(const struct stat& s) {
  return fmt::format("{} {} {} {}.{} {}.{}", s.st_dev, s.st_ino, s.st_size, s.st_mtim.tv_sec, s.st_mtim.tv_nsec,
                     s.st_ctim.tv_sec, s.st_ctim.tv_nsec);
}

/// What shows that a file was changed or replaced; nullopt: this process may not look at it.
std::optional<std::string> facts_of(const std::string& path) {
  struct stat s{};
  if (path.empty()) return std::string();
  if (::stat(path.c_str(), &s) == 0) return text_of(s);
  if (errno == EACCES) return std::nullopt;
  return fmt::format("errno {}", errno);
}

/// The same of a file that is lent; nullopt: it cannot be had now.
std::optional<std::string> facts_of_lent(const std::string& path) {
  const auto file = map::open_table_file(path);
  struct stat s{};
  if (file && ::fstat(file->fd.get(), &s) == 0) return text_of(s);
  if (!file && file.error().is_errno(ENOENT)) return fmt::format("errno {}", ENOENT);
  return std::nullopt;
}

/// Of a file that this process may open, or that is lent to it.
Result<std::string> read(const std::string& path, bool in_table = false) {
  auto text = tls::read_file(path);
  if (text || !text.error().is_errno(EACCES)) return text;
  const auto file = map::open_table_file(path, in_table);
  if (!file) return fail(tls::TlsError::unreadable, path, file.error().sys_errno());
  return map::read_table_file(file->fd.get(), path);
}

/// In the words that TLS itself has for it.
std::string words_for(const Error& error, const std::string& cert_file, const std::string& key_file) {
  if (error.is(KeyError::mismatch)) return key_file + " is not the key of the certificate in " + cert_file;
  if (error.is(KeyError::no_certificate)) return cert_file + ": no certificate in it";
  if (error.is(KeyError::no_key)) return key_file + ": no usable private key";
  return error.message();
}

std::string sha256(std::string_view text) {
  dkim::Sha256 digest;
  digest.update(text);
  return digest.finish();
}

}  // namespace

Result<std::vector<OwnedPair>> split_chains(std::string_view pem, const std::string& name) {
  constexpr std::string_view kBegin = "-----BEGIN ", kEnd = "-----END ";
  std::vector<OwnedPair> out;
  while (true) {
    const auto begin = pem.find(kBegin);
    if (begin == std::string_view::npos) break;
    const auto type_end = pem.find("-----", begin + kBegin.size());
    const auto end = pem.find(kEnd, begin);
    if (type_end == std::string_view::npos || end == std::string_view::npos) break;
    const std::string_view type = pem.substr(begin + kBegin.size(), type_end - begin - kBegin.size());
    const auto after = std::min(pem.find('\n', end), pem.size());
    const std::string block = std::string(pem.substr(begin, after - begin)) + "\n";
    pem.remove_prefix(after);
    if (type.ends_with("PRIVATE KEY")) {
      if (!out.empty() && out.back().certificates.empty()) return fail(KeyError::no_certificate, name);
      out.push_back({.key = block, .certificates = {}});
    } else if (type.ends_with("CERTIFICATE")) {
      if (out.empty()) return fail(KeyError::no_key, name);
      out.back().certificates += block;
    }
  }
  if (out.empty()) return fail(KeyError::no_key, name);
  if (out.back().certificates.empty()) return fail(KeyError::no_certificate, name);
  return out;
}

std::string Sources::Files::name() const {
  return chains.empty() ? pair_name(cert_file, key_file) : chain_name(chains, 0);
}

std::vector<std::string> Sources::Files::all() const {
  if (!chains.empty()) return chains;
  return key_file.empty() || key_file == cert_file ? std::vector{cert_file} : std::vector{cert_file, key_file};
}

Sources::Facts Sources::facts(const Files& files) const {
  Facts out;
  for (const std::string& file : files.all()) {
    auto own = facts_of(file);
    const auto lent = lent_.find(file);
    out[file] = own ? *std::move(own) : lent != lent_.end() ? lent->second : std::string();
  }
  return out;
}

Sources::Sources(const config::Config& config, const Clock& clock) : clock_(clock) {
  for (const config::Service& service : config.master()) {
    const std::string& program = service.command;
    const bool smtpd = program == "smtpd", smtp = program == "smtp" || program == "lmtp";
    const bool signs = smtpd || program == "pickup" || program == "qmqpd" || program == "bounce";
    if (!smtp && !signs) continue;
    const config::Config own = config.with(service);
    const config::Settings& s = own.settings();
    if (smtpd && smtpd::tls_mode(own).level != smtpd::TlsLevel::none) {
      add_files(Use::server,
                {{s.smtpd_tls_cert_file, s.smtpd_tls_key_file},
                 {s.smtpd_tls_dcert_file, s.smtpd_tls_dkey_file},
                 {s.smtpd_tls_eccert_file, s.smtpd_tls_eckey_file}},
                s.smtpd_tls_chain_files);
      const std::string value = join(s.tls_server_sni_maps);
      if (!value.empty() && !sni_.contains(value)) {
        auto maps =
            map::MapList::open(value, {.default_type = s.default_database_type, .setting = "tls_server_sni_maps"});
        if (!maps)
          news_.push_back("tls_server_sni_maps: " + maps.error().message() +
                          ": every client gets the usual certificate");
        else if (maps->blocking())
          news_.emplace_back(
              "tls_server_sni_maps: a table that another process serves cannot be used in a handshake: every client "
              "gets the usual certificate");
        else
          sni_.emplace(value, *std::move(maps));
      }
    }
    if (smtp) {
      if (program == "smtp")
        add_files(Use::client,
                  {{s.smtp.tls_cert_file, s.smtp.tls_key_file},
                   {s.smtp.tls_dcert_file, s.smtp.tls_dkey_file},
                   {s.smtp.tls_eccert_file, s.smtp.tls_eckey_file}},
                  s.smtp.tls_chain_files);
      else
        add_files(Use::client,
                  {{s.lmtp.tls_cert_file, s.lmtp.tls_key_file},
                   {s.lmtp.tls_dcert_file, s.lmtp.tls_dkey_file},
                   {s.lmtp.tls_eccert_file, s.lmtp.tls_eckey_file}},
                  s.lmtp.tls_chain_files);
    }
    if (signs) add_signer(s, smtpd, clock);
  }
  const auto which = [](const Files& f) { return std::tie(f.use, f.cert_file, f.key_file, f.chains); };
  std::ranges::sort(files_, {}, which);
  const auto twice = std::ranges::unique(files_, {}, which);
  files_.erase(twice.begin(), twice.end());
}

void Sources::add_files(Use use, const std::vector<std::pair<std::string, std::string>>& pairs,
                        const std::vector<std::string>& chain_files) {
  if (!chain_files.empty()) {
    files_.push_back({.use = use, .cert_file = {}, .key_file = {}, .chains = chain_files, .names = {}, .seen = {}});
    return;
  }
  for (const auto& [cert, key] : pairs)
    if (!cert.empty() && !iequals(cert, "none"))
      files_.push_back({.use = use, .cert_file = cert, .key_file = key, .chains = {}, .names = {}, .seen = {}});
}

void Sources::add_signer(const config::Settings& s, bool may_seal, const Clock& clock) {
  const std::string table = s.dkim_opendkim_conf + "\n" + (s.dkim_opendkim_conf.empty() ? s.dkim_key_table : "");
  const auto add = [&](const char* use, auto&& open) {
    if (!signer_settings_.insert(table + use).second) return;
    Result<std::shared_ptr<const signing::Signing>> opened = open();
    if (!opened) return news_.push_back(opened.error().message());
    if (*opened == nullptr) return;
    const std::string& name = (*opened)->key_table();
    if (std::ranges::any_of(signers_, [&](const Signer& other) { return other.table == name; })) return;
    signers_.push_back({.table = name, .signing = *std::move(opened), .put = {}});
  };
  if (s.dkim_signing) add("\nsigns", [&] { return signing::Signing::open(s, clock); });
  // The keys that seal may be those of another table, and are needed where an opendkim.conf says that nothing is
  // signed.
  if (may_seal && !s.arc_seal_key.empty()) add("\nseals", [&] { return signing::Signing::open_keys(s, clock); });
}

void Sources::wrong(Use use, const std::string& name, std::string why) {
  std::string& now = errors_[static_cast<std::size_t>(use)][name];
  if (now == why) return;
  now = why;
  if (std::ranges::count(news_, why) == 0) news_.push_back(std::move(why));  // the same files have other uses
}

void Sources::load(Vault& vault, Files& files) {
  files.seen = facts(files);  // before they are read
  const std::string cert_file = files.chains.empty() ? files.cert_file : join(files.chains);
  const std::string key_file = files.key_file.empty() ? cert_file : files.key_file;
  const std::string name = files.name();
  std::string certificates;
  for (const auto& file : files.chains.empty() ? std::vector{files.cert_file} : files.chains) {
    const auto text = read(file);
    if (!text) return wrong(files.use, name, text.error().message());
    certificates += *text;
    if (!files.chains.empty()) certificates += '\n';
  }
  std::vector<OwnedPair> pairs;
  if (!files.chains.empty()) {
    auto found = split_chains(certificates, cert_file);
    if (!found) return wrong(files.use, name, words_for(found.error(), cert_file, cert_file));
    pairs = *std::move(found);
  } else {
    if (!certificates.contains("CERTIFICATE-----"))
      return wrong(files.use, name, files.cert_file + ": no certificate in it");
    auto key = key_file == files.cert_file ? Result<std::string>(certificates) : read(key_file);
    if (!key) return wrong(files.use, name, key.error().message());
    pairs.push_back({.key = *std::move(key), .certificates = std::move(certificates)});
  }
  // All of them, or none: what is held of these files belongs together.
  Vault trial;
  for (std::size_t i = 0; i < pairs.size(); ++i) {
    const auto put = trial.put(chain_name(files.chains, i + 1), files.use,
                               {.key = pairs[i].key, .certificates = pairs[i].certificates});
    if (!put) return wrong(files.use, name, words_for(put.error(), cert_file, key_file));
  }
  std::vector<std::string> names;
  bool renewed = false;
  for (std::size_t i = 0; i < pairs.size(); ++i) {
    names.push_back(files.chains.empty() ? name : chain_name(files.chains, i + 1));
    const auto before = vault.look_up(files.use, names.back());
    const auto put = vault.put(names.back(), files.use, {.key = pairs[i].key, .certificates = pairs[i].certificates});
    if (!put) return wrong(files.use, name, words_for(put.error(), cert_file, key_file));
    const auto now = vault.look_up(files.use, names.back());
    renewed = renewed || (before && (before->id != now->id || before->certificates != now->certificates));
  }
  if (renewed && std::ranges::count(renewed_, cert_file) == 0) renewed_.push_back(cert_file);
  for (const auto& old : files.names)
    if (std::ranges::count(names, old) == 0) vault.forget(old, files.use);
  files.names = std::move(names);
  right(files.use, name);
}

void Sources::load(Vault& vault, Signer& signer) {
  const std::string whole = dkim_name(signer.table, "", "", "");
  auto& errors = errors_[static_cast<std::size_t>(Use::dkim)];
  if (const auto listable = signer.signing->listable(); !listable || !*listable) {
    if (listable)
      errors[whole] = "";  // the signer reads them
    else
      wrong(Use::dkim, dkim_name(signer.table, "?", "", ""), listable.error().message());
    return;
  }
  errors.erase(dkim_name(signer.table, "?", "", ""));
  errors.erase(whole);
  const auto named = signer.signing->named_keys();
  if (!named) return wrong(Use::dkim, dkim_name(signer.table, "?", "", ""), named.error().message());
  std::set<std::string> there;
  for (const auto& one : *named) {
    const std::string name = dkim_name(signer.table, one.name, one.entry.domain, one.entry.selector);
    if (!there.insert(name).second) continue;
    auto key = signer.signing->key(one.entry);
    if (!key) {
      Error error = std::move(key).error();
      wrong(Use::dkim, name, (one.where.empty() ? std::move(error) : std::move(error).within(one.where)).message());
      continue;
    }
    auto& put = signer.put[name];
    if (put != *key) {
      if (const auto done = vault.put(name, Use::dkim, {.key = (*key)->pem(), .certificates = {}}); !done) {
        wrong(Use::dkim, name, done.error().message());
        continue;
      }
      put = *std::move(key);
    }
    right(Use::dkim, name);
  }
  for (auto at = signer.put.begin(); at != signer.put.end();) {
    if (there.contains(at->first)) {
      ++at;
      continue;
    }
    vault.forget(at->first, Use::dkim);
    at = signer.put.erase(at);
  }
  std::erase_if(errors, [&](const auto& one) {
    return one.first.starts_with(signer.table + "\n") && !there.contains(one.first);
  });
}

void Sources::load(Vault& vault) {
  for (Files& files : files_) load(vault, files);
  for (Signer& signer : signers_) load(vault, signer);
}

void Sources::watch() {
  for (Files& files : files_) {
    for (const auto& [file, facts] : files.seen)
      if (!facts_of(file)) lent_[file] = facts;
    files.seen = facts(files);
  }
}

bool Sources::look(Vault& vault) {
  const auto before = renewed_.size();
  for (Files& files : files_)
    if (files.seen != facts(files)) load(vault, files);
  for (Signer& signer : signers_) load(vault, signer);
  return renewed_.size() != before;
}

bool Sources::look_closely(Vault& vault) {
  for (auto& [file, facts] : lent_)
    if (!facts_of(file))
      if (auto now = facts_of_lent(file)) facts = *std::move(now);
  return look(vault);
}

void Sources::complete(Use use, Listed& listed) const {
  const auto& errors = errors_[static_cast<std::size_t>(use)];
  std::set<std::string_view> shown;
  for (Held& held : listed.keys) {
    const auto at = errors.find(held.name);
    if (at != errors.end()) held.error = at->second;
  }
  if (listed.more) return;
  std::size_t added = 0;
  for (const auto& [name, why] : errors) {
    const bool known = std::ranges::any_of(listed.keys, [&](const Held& h) { return h.name == name; });
    if (known || ++added > kMostErrors) continue;
    listed.keys.push_back({.name = name, .id = {}, .public_key = {}, .certificates = {}, .error = why});
  }
}

Result<std::string> Sources::text_of_chain(const std::string& value) {
  if (!value.starts_with('/')) {
    auto decoded = base64_decode(value);
    if (!decoded) return fail(KeyError::no_key, "the value is neither base 64 nor the names of files");
    return *std::move(decoded);
  }
  std::string pem;
  for (const std::string_view file : split(value)) {
    PEN_TRY_ASSIGN(const std::string text, read(std::string(file), true));
    pem += text + "\n";
  }
  return pem;
}

Result<void> Sources::put_chains(const std::string& name, ByName& known, const std::string& value) {
  PEN_TRY_ASSIGN(const std::string pem, text_of_chain(value));
  std::string digest = sha256(pem);
  if (digest == known.digest) {
    known.value = value;
    return {};
  }
  PEN_TRY_ASSIGN(const auto pairs, split_chains(pem, name));
  Vault trial;  // all of them, or none
  for (const auto& pair : pairs)
    PEN_TRY(trial.put(name, Use::server, {.key = pair.key, .certificates = pair.certificates}));
  for (std::size_t i = 0; i < pairs.size(); ++i)
    PEN_TRY(by_name_.put(chain_name(name, i + 1), Use::server,
                         {.key = pairs[i].key, .certificates = pairs[i].certificates}));
  known.value = value;
  known.digest = std::move(digest);
  known.chains = pairs.size();
  return {};
}

Result<std::vector<Held>> Sources::chains_of(const std::string& name, const std::string& value) {
  if (by_name_.names(Use::server) >= Vault::kMostNames) {  // those of the handshakes under way fail
    by_name_ = Vault();
    put_by_name_.clear();
  }
  ByName& known = put_by_name_[name];
  const auto files = value.starts_with('/') ? split(value) : std::vector<std::string_view>();
  const bool closed = std::ranges::any_of(files, [](auto file) { return !facts_of(std::string(file)); });
  const bool same = known.value == value, recent = same && closed && clock_.now() < known.read + kRecent;
  if (!recent) {
    auto done = put_chains(name, known, value);
    known.read = clock_.now();
    // Half a renewal, perhaps: what was read of these files before stays in use.
    if (!done && (!same || known.chains == 0)) return std::unexpected(std::move(done).error());
    std::string why = done ? std::string() : done.error().message();
    if (!why.empty() && why != known.wrong)
      news_.push_back(fmt::format("tls_server_sni_maps: {}: what was read before stays in use", why));
    known.wrong = std::move(why);
  }
  std::vector<Held> out;
  for (std::size_t i = 0; i < known.chains; ++i)
    if (auto held = by_name_.look_up(Use::server, chain_name(name, i + 1))) out.push_back(*std::move(held));
  return out;
}

Listed Sources::find(const Find& wanted) {
  Listed out{.request = wanted.request, .keys = {}, .more = false};
  const auto maps = sni_.find(std::string(wanted.maps));
  if (maps == sni_.end()) return out;
  const auto refuse = [&](const Error& why) {
    out.keys.assign(
        1, {.name = std::string(wanted.name), .id = {}, .public_key = {}, .certificates = {}, .error = why.message()});
    return out;
  };
  const std::string name = to_lower(wanted.name);
  for (std::string_view key = name;;) {
    const auto value = maps->second.lookup(key);
    if (!value) return refuse(value.error());
    if (*value) {
      auto chains = chains_of(maps->first + "\n" + std::string(key), **value);
      if (!chains) return refuse(chains.error());
      out.keys = *std::move(chains);
      return out;
    }
    const auto dot = key.find('.', 1);
    if (dot == std::string_view::npos) return out;
    key.remove_prefix(dot);
  }
}

}  // namespace pen::keys
