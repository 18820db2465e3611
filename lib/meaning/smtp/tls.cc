#include "lib/meaning/smtp/tls.h"

#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>
#include <tuple>

#include "lib/base/log.h"
#include "lib/base/text.h"
#include "lib/trust/key_client/tls.h"

namespace pen::smtp {

using ipc::TlsLevel;

namespace {

mail::DeliveryStatus deferred(std::string dsn, std::string text) {
  return {mail::Action::deferred, std::move(dsn), std::move(text), {}, {}};
}

/// The OpenSSL list of a grade. OpenSSL no longer has export and low ciphers; these grades give medium, as in Postfix.
const std::string* grade_list(const TlsSettings& s, std::string_view grade) {
  if (iequals(grade, "high")) return &s.high_ciphers;
  if (iequals(grade, "null")) return &s.null_ciphers;
  const bool medium = iequals(grade, "medium") || iequals(grade, "low") || iequals(grade, "export");
  return medium ? &s.medium_ciphers : nullptr;
}

std::vector<std::string> files_of(const tls::ContextOptions& o) {
  std::vector<std::string> files = o.chain_files;
  for (const auto& pair : o.pairs) {
    files.push_back(pair.cert_file);
    if (!pair.key_file.empty()) files.push_back(pair.key_file);
  }
  if (!o.ca_file.empty()) files.push_back(o.ca_file);
  files.insert(files.end(), o.trust_anchor_files.begin(), o.trust_anchor_files.end());
  return files;
}

/// Facts that show whether a file was changed or replaced.
std::vector<std::string> look(const std::vector<std::string>& files) {
  std::vector<std::string> facts;
  for (const auto& file : files) {
    struct stat s{};
    facts.push_back(::stat(file.c_str(), &s) != 0
                        ? fmt::format("errno {}", errno)
                        : fmt::format("{} {} {} {}.{} {}.{}", s.st_dev, s.st_ino, s.st_size, s.st_mtim.tv_sec,
                                      s.st_mtim.tv_nsec, s.st_ctim.tv_sec, s.st_ctim.tv_nsec));
  }
  return facts;
}

void append_words(std::vector<std::string>& to, std::string_view text) {
  for (const auto word : split(text, " \t\r\n,:")) to.emplace_back(word);
}

}  // namespace

ClientTls::ClientTls(TlsSettings settings, const Clock& clock) : settings_(std::move(settings)) {
  if (settings_.keep_sessions)
    sessions_ =
        tls::memory_session_cache(kSessions, std::chrono::duration_cast<seconds>(settings_.session_lifetime), clock);
}
ClientTls::~ClientTls() = default;

std::vector<tls::CertificateFiles> ClientTls::pairs() const {
  const TlsSettings& s = settings_;
  std::vector<tls::CertificateFiles> out;
  if (!s.chain_files.empty()) return out;
  for (const auto& [cert, key] : {std::pair{&s.cert_file, &s.key_file}, std::pair{&s.dcert_file, &s.dkey_file},
                                  std::pair{&s.eccert_file, &s.eckey_file}}) {
    if (!cert->empty() && !iequals(*cert, "none")) out.push_back({*cert, *key});
  }
  return out;
}

bool ClientTls::needs_keys() const { return keys_elsewhere_ && !(pairs().empty() && settings_.chain_files.empty()); }

std::vector<std::string> ClientTls::their_files() const {
  tls::ContextOptions o;
  o.pairs = pairs();
  o.chain_files = settings_.chain_files;
  return files_of(o);
}

void ClientTls::use_keys(std::shared_ptr<keys::Client> client) {
  client_ = std::move(client);
  their_seen_ = look(their_files());
  client_->on_list = [this] {
    contexts_.clear();
    their_seen_ = look(their_files());
    if (const auto usable = remote(); !usable) log::warning("{}", usable.error().message());
  };
}

Result<std::vector<tls::RemoteCertificate>> ClientTls::remote() const {
  std::vector<tls::RemoteCertificate> out;
  if (!client_ || !client_->has_list() || !client_->available())
    return fail(tls::TlsError::setup, "the key process does not answer");
  const auto& held = client_->held();
  const auto take = [&](const std::string& name, const std::string& shown) -> Result<void> {
    const auto at = held.find(name);
    if (at == held.end()) return fail(tls::TlsError::setup, shown + ": the key process has no such certificate");
    if (at->second.id.empty()) return fail(tls::TlsError::setup, at->second.error);
    out.push_back(keys::certificate(client_, at->second));
    return {};
  };
  for (const auto& pair : pairs()) PEN_TRY(take(ipc::keys::pair_name(pair.cert_file, pair.key_file), pair.cert_file));
  if (const auto& files = settings_.chain_files; !files.empty())
    for (const auto& name : keys::chains_among(held, files)) PEN_TRY(take(name, join(files)));
  return out;
}

tls::ContextOptions ClientTls::context_options(const ipc::TlsPolicy& policy) const {
  const TlsSettings& s = settings_;
  tls::ContextOptions o;
  o.role = tls::Role::client;
  if (keys_elsewhere_) {
    o.keys_elsewhere = needs_keys();
  } else {
    o.pairs = pairs();
    o.chain_files = s.chain_files;
  }
  const auto& anchors = policy.trust_anchors.empty() ? s.trust_anchor_files : policy.trust_anchors;
  if (anchors.empty()) {
    o.ca_file = s.ca_file;
    o.ca_path = s.ca_path;
    o.default_ca = s.default_ca;
  } else {
    o.trust_anchor_files = anchors;
  }
  o.digest = s.digest;
  o.legacy_key_digest = s.legacy_key_digest;
  o.verify_depth = s.verify_depth;
  o.groups = s.groups;
  o.ssl_options = s.ssl_options;
  o.disabled_workarounds = s.disabled_workarounds;
  o.wildcard_matches_several_labels = s.wildcard_matches_several_labels;
  o.sessions = sessions_;
  return o;
}

Result<std::shared_ptr<const tls::Context>> ClientTls::context(const ipc::TlsPolicy& policy) {
  std::vector<tls::RemoteCertificate> ours;
  bool without = false;
  if (client_) {
    if (auto now = look(their_files()); now != their_seen_) {
      their_seen_ = std::move(now);
      client_->ask_for_list();  // for the connections after this one
    }
    auto found = remote();
    const bool gone = !client_->has_list() || !client_->available();
    if (!found && (!gone || policy.level > TlsLevel::may)) return fail(std::move(found).error());
    without = !found;
    if (found) ours = *std::move(found);
  }
  const std::string key = (without ? "without\n" : "") + join(policy.trust_anchors, "\n");
  const auto found = contexts_.find(key);
  const bool known = found != contexts_.end();
  if (known && look(found->second.files) == found->second.seen) return found->second.context;
  auto options = context_options(policy);
  options.remote = std::move(ours);
  Opened now;
  now.files = files_of(options);
  now.seen = look(now.files);  // before reading, so that a change during the reading is noticed
  auto opened = tls::Context::open(std::move(options));
  if (!opened && !known) return opened;
  if (opened) {
    for (const auto& warning : (*opened)->warnings()) log::warning("{}", warning);
    now.context = *opened;
  } else {
    log::warning("{}: the certificates read before stay in use", opened.error().message());
    now.context = found->second.context;
  }
  if (!known && contexts_.size() >= kContexts) contexts_.clear();
  auto context = now.context;
  contexts_[key] = std::move(now);
  return context;
}

std::vector<std::string> ClientTls::problems() {
  std::vector<std::string> found;
  if (!settings_.unusable.empty()) return {settings_.unusable + ": TLS is not available"};
  if (!files_of(context_options({})).empty()) {
    if (auto opened = context({}); !opened) found.push_back(opened.error().message());
  }
  const std::string own = settings_.lmtp ? "lmtp_tls_" : "smtp_tls_";
  for (const auto& [name, protocols, grade] :
       {std::tuple{std::string(), &settings_.protocols, &settings_.ciphers},
        std::tuple{std::string("mandatory_"), &settings_.mandatory_protocols, &settings_.mandatory_ciphers}}) {
    if (auto parsed = tls::Protocols::parse(*protocols); !parsed)
      found.push_back(own + name + "protocols: " + parsed.error().message());
    auto list = ciphers_of(*grade, {});
    if (!list) {
      found.push_back(own + name + "ciphers: " + list.error().message());
      continue;
    }
    tls::ContextOptions alone;
    alone.role = tls::Role::client;
    alone.ciphers = *list;
    if (auto opened = tls::Context::open(std::move(alone)); !opened)
      found.push_back(own + name + "ciphers = " + *grade + ", by tls_*_cipherlist: " + opened.error().message());
  }
  return found;
}

void ClientTls::preload() {
  for (const auto& problem : problems()) log::warning("{}", problem);
}

Result<std::string> ClientTls::ciphers_of(const std::string& grade, std::vector<std::string> excluded) const {
  const std::string* list = grade_list(settings_, grade);
  if (list == nullptr) return fail(tls::TlsError::setup, "no such cipher grade \"" + printable(grade, 50) + "\"");
  return tls::cipher_list(*list, excluded);
}

void ClientTls::watch() {
  for (auto& [key, opened] : contexts_) opened.seen = look(opened.files);
}

Result<TlsPlan> ClientTls::plan(const ipc::Destination& destination) {
  const ipc::TlsPolicy& policy = destination.tls;
  const bool mandatory = policy.level > TlsLevel::may;
  if (!settings_.unusable.empty()) return fail(tls::TlsError::setup, settings_.unusable);
  TlsPlan plan;
  const bool testing = policy.sts == ipc::StsMode::testing;
  auto opened = context(policy);
  if (!opened && testing) {  // delivery continues as without the policy
    plan.blind = true;
    opened = context({});
  }
  if (!opened) return fail(std::move(opened).error());
  plan.context = *std::move(opened);
  tls::ConnectOptions& o = plan.options;
  o.server_name = policy.servername;
  if (policy.level == TlsLevel::verify || policy.level == TlsLevel::secure || testing) o.names = policy.match;
  o.strict_names = policy.sts != ipc::StsMode::none;
  if (policy.level == TlsLevel::dane) {
    o.names = policy.match;
    o.tlsa_base = policy.servername;
    for (const auto& record : policy.tlsa) {
      const auto parsed = tls::parse_tlsa(record);
      if (!parsed) return fail(tls::TlsError::setup, "TLSA record \"" + printable(record, 100) + "\"");
      o.tlsa.push_back(*parsed);
    }
  }
  o.session_key = destination.key();
  const std::string& by_setting = mandatory ? settings_.mandatory_protocols : settings_.protocols;
  PEN_TRY_ASSIGN(o.protocols, tls::Protocols::parse(policy.protocols.empty() ? by_setting : policy.protocols));
  const std::string& grade = !policy.ciphers.empty() ? policy.ciphers
                             : mandatory             ? settings_.mandatory_ciphers
                                                     : settings_.ciphers;
  // An exclude= in the policy table replaces the settings'.
  std::vector<std::string> excluded;
  if (policy.exclude.empty()) {
    for (const auto& word : settings_.exclude_ciphers) append_words(excluded, word);
    if (mandatory)
      for (const auto& word : settings_.mandatory_exclude_ciphers) append_words(excluded, word);
  } else {
    append_words(excluded, policy.exclude);
  }
  // A level that checks certificates cannot accept ciphers without them (RFC 5246 appendix F.1.1.1).
  if (policy.level > TlsLevel::encrypt) excluded.emplace_back("aNULL");
  PEN_TRY_ASSIGN(o.ciphers, ciphers_of(grade, std::move(excluded)));
  return plan;
}

std::optional<mail::DeliveryStatus> refusal(const ipc::Destination& destination, const tls::SessionInfo& info) {
  const ipc::TlsPolicy& policy = destination.tls;
  std::string why = info.why_not.empty() ? "" : ": " + printable(info.why_not, 300);
  switch (policy.level) {
    case TlsLevel::none:
    case TlsLevel::may:
    case TlsLevel::encrypt:
      return std::nullopt;
    case TlsLevel::fingerprint: {
      const auto is = [&](const std::string& digest) {
        return !digest.empty() && (digest == info.fingerprint || digest == info.key_fingerprint);
      };
      if (info.peer_certificate && std::ranges::any_of(policy.match, is)) return std::nullopt;
      why = info.peer_certificate ? ": fingerprint " + info.fingerprint + ", of its public key " +
                                        info.key_fingerprint + ", is not one of those expected"
                                  : ": it has shown none";
      break;
    }
    case TlsLevel::verify:
    case TlsLevel::secure:
      if (info.trusted && info.matched) return std::nullopt;
      break;
    case TlsLevel::dane:
    case TlsLevel::dane_only:
      if (info.trusted && info.matched) return std::nullopt;
      break;
  }
  const bool named = info.trusted || policy.level == TlsLevel::fingerprint;
  if (destination.requiretls)
    return deferred("4.7.10", "REQUIRETLS asks for a verified server, but the certificate of host " +
                                  destination.shown() + " is not" + (named ? " verified" : " trusted") + why);
  return deferred("4.7.5", std::string("Server certificate not ") + (named ? "verified" : "trusted") + ", host " +
                               destination.shown() + why);
}

bool falls_short_of_sts(const ipc::Destination& destination, const tls::SessionInfo& info) {
  return destination.tls.sts != ipc::StsMode::none && !(info.trusted && info.matched);
}

ipc::tls_report::ResultType refused_as(const ipc::Destination& destination, const tls::SessionInfo& info) {
  using enum ipc::tls_report::ResultType;
  if (info.trusted) return certificate_host_mismatch;
  // RFC 8460 section 4.3.2 has no result type for a certificate that does not match the TLSA records.
  if (destination.tls.level == TlsLevel::dane) return validation_failure;
  return info.why_not.find("expired") != std::string::npos ? certificate_expired : certificate_not_trusted;
}

mail::DeliveryStatus handshake_failure(const ipc::Destination& destination, const Error& error) {
  const bool required = destination.tls.level > TlsLevel::may;
  return deferred("4.7.5",
                  (required ? "TLS is required, but cannot be started with host " : "Cannot start TLS with host ") +
                      destination.shown() + ": handshake failure: " + printable(error.message(), 300));
}

}  // namespace pen::smtp
