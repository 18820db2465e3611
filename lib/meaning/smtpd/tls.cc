#include "lib/meaning/smtpd/tls.h"

#include <fmt/format.h>
#include <sys/stat.h>

#include "lib/base/base64.h"
#include "lib/base/log.h"
#include "lib/base/text.h"
#include "lib/config/key_process.h"
#include "lib/net/tls/error.h"
#include "lib/trust/key_client/tls.h"

namespace pen::smtpd {
namespace {

// For clients that take no tickets; a few kilobytes each.
constexpr std::size_t kKeptSessions = 5000;

constexpr std::string_view kStay = ": the certificates read before stay in use";
constexpr std::string_view kNone = ": TLS is not available until that is corrected";

bool yes(const config::Config& config, const char* name) { return iequals(config.text(name).value_or(""), "yes"); }

Result<std::string> grade_list(const config::Settings& s, const std::string& grade) {
  if (iequals(grade, "high")) return s.tls_high_cipherlist;
  for (const char* known : {"medium", "low", "export"})
    if (iequals(grade, known)) return s.tls_medium_cipherlist;
  if (iequals(grade, "null")) return s.tls_null_cipherlist;
  return fail(tls::TlsError::setup, "cipher grade \"" + grade + "\": medium, high or null");
}

/// The PEM for a table's value: the value itself in base 64, or files.
Result<std::optional<std::string>> chain_of(const std::string& value) {
  if (!value.starts_with('/')) {
    auto pem = base64_decode(value);
    if (!pem) return fail(tls::TlsError::setup, "the value is neither base 64 nor the names of files");
    return pem;
  }
  std::string pem;
  for (const std::string_view file : split(value)) {
    PEN_TRY_ASSIGN(const std::string text, tls::read_file(std::string(file)));
    pem += text + "\n";
  }
  return pem;
}

Result<std::optional<std::string>> find_chain(const map::MapList& maps, std::string_view asked) {
  const std::string name = to_lower(asked);
  for (std::string_view key = name;;) {
    PEN_TRY_ASSIGN(const auto value, maps.lookup(key));
    if (value) return chain_of(*value);
    const auto dot = key.find('.', 1);
    if (dot == std::string_view::npos) return std::nullopt;
    key.remove_prefix(dot);
  }
}

/// smtpd_tls_dh1024_param_file; empty: OpenSSL chooses.
std::string dh_file(const config::Settings& s) {
  return iequals(s.smtpd_tls_dh1024_param_file, "auto") ? "" : s.smtpd_tls_dh1024_param_file;
}

/// elsewhere: tables of certificates by name hold keys as well, and are not looked into.
Result<tls::ContextOptions> context_options(const config::Config& config, const Clock& clock, const TlsMode& mode,
                                            bool elsewhere) {
  const config::Settings& s = config.settings();
  const bool encrypt = mode.level == TlsLevel::encrypt;
  tls::ContextOptions o;
  for (const auto& [cert, key] : {std::pair(s.smtpd_tls_cert_file, s.smtpd_tls_key_file),
                                  {s.smtpd_tls_dcert_file, s.smtpd_tls_dkey_file},
                                  {s.smtpd_tls_eccert_file, s.smtpd_tls_eckey_file}})
    if (!cert.empty() && s.smtpd_tls_chain_files.empty()) o.pairs.push_back({cert, key});
  o.chain_files = s.smtpd_tls_chain_files;
  o.ca_file = s.smtpd_tls_CAfile;
  o.ca_path = s.smtpd_tls_CApath;
  o.default_ca = s.tls_append_default_CA;
  const std::string& protocols = encrypt ? s.smtpd_tls_mandatory_protocols : s.smtpd_tls_protocols;
  auto parsed = tls::Protocols::parse(protocols);
  if (!parsed)
    return fail(std::move(parsed).error().within(encrypt ? "smtpd_tls_mandatory_protocols" : "smtpd_tls_protocols"));
  o.protocols = *std::move(parsed);
  auto list = grade_list(s, encrypt ? s.smtpd_tls_mandatory_ciphers : s.smtpd_tls_ciphers);
  if (!list) return fail(std::move(list).error().within(encrypt ? "smtpd_tls_mandatory_ciphers" : "smtpd_tls_ciphers"));
  std::vector<std::string> excluded = s.smtpd_tls_exclude_ciphers;
  if (encrypt)
    excluded.insert(excluded.end(), s.smtpd_tls_mandatory_exclude_ciphers.begin(),
                    s.smtpd_tls_mandatory_exclude_ciphers.end());
  using Ask = tls::ContextOptions::ClientCertificate;
  if (s.smtpd_tls_req_ccert && encrypt)
    o.client_certificate = Ask::required;
  else if (s.smtpd_tls_ask_ccert || s.smtpd_tls_req_ccert)
    o.client_certificate = Ask::asked;
  if (o.client_certificate != Ask::unasked) excluded.emplace_back("aNULL");
  o.ciphers = tls::cipher_list(*list, excluded);
  o.groups = s.tls_eecdh_auto_curves;
  o.groups.insert(o.groups.end(), s.tls_ffdhe_auto_groups.begin(), s.tls_ffdhe_auto_groups.end());
  o.digest = s.smtpd_tls_fingerprint_digest;
  o.legacy_key_digest = s.tls_legacy_public_key_fingerprints;
  o.verify_depth = s.smtpd_tls_ccert_verifydepth;
  o.prefer_own_ciphers = s.tls_preempt_cipherlist;
  o.ssl_options = s.tls_ssl_options;
  o.disabled_workarounds = s.tls_disable_workarounds;
  o.trust_server_certificates = s.tls_trust_server_ccerts;
  o.application_protocols = {"smtp", "esmtp"};  // no registry has one for SMTP; these are what Exim offers
  o.session_lifetime = std::chrono::duration_cast<seconds>(s.smtpd_tls_session_cache_timeout);
  if (o.session_lifetime.count() > 0)
    o.tickets = std::make_shared<tls::TicketKeys>(s.data_directory + "/tls_ticket_keys", o.session_lifetime, clock);
  if (o.session_lifetime.count() > 0 && !s.smtpd_tls_session_cache_database.empty()) o.kept_sessions = kKeptSessions;
  // A ticket holds the verdict on a client's certificate. It must not count where certificates are judged differently.
  o.session_scope = fmt::format("smtpd {} {} {} {} {} {}", static_cast<int>(o.client_certificate), o.ca_file, o.ca_path,
                                o.default_ca ? 1 : 0, o.verify_depth, o.trust_server_certificates ? 1 : 0);
  if (!s.tls_server_sni_maps.empty() && !elsewhere) {
    const map::OpenOptions open{.default_type = config.text("default_database_type").value_or("hash"),
                                .setting = "tls_server_sni_maps"};
    auto maps = map::MapList::open(join(s.tls_server_sni_maps), open);
    if (!maps) return fail(std::move(maps).error().within("tls_server_sni_maps"));
    if (maps->blocking()) {
      log::warning(
          "tls_server_sni_maps: a table that another process serves cannot be used in a "
          "handshake: every client gets the usual certificate");
      return o;
    }
    o.find_chain = [maps = *std::move(maps)](std::string_view name) {
      auto found = find_chain(maps, name);
      if (!found) log::warning("tls_server_sni_maps: {}: {}", printable(name, 255), found.error().message());
      return found;
    };
  }
  return o;
}

}  // namespace

TlsMode tls_mode(const config::Config& config) {
  const config::Settings& s = config.settings();
  TlsMode mode;
  const std::string& level = s.smtpd_tls_security_level;
  if (iequals(level, "may")) {
    mode.level = TlsLevel::may;
  } else if (iequals(level, "encrypt")) {
    mode.level = TlsLevel::encrypt;
  } else if (level.empty()) {
    if (yes(config, "smtpd_enforce_tls"))
      mode.level = TlsLevel::encrypt;
    else if (yes(config, "smtpd_use_tls"))
      mode.level = TlsLevel::may;
  } else if (!iequals(level, "none")) {
    // A server has no stricter level than this.
    mode.level = TlsLevel::encrypt;
    mode.warning = "smtpd_tls_security_level = " + level + ": taken as encrypt";
  }
  mode.wrapper = s.smtpd_tls_wrappermode;
  if (mode.wrapper) mode.level = TlsLevel::encrypt;
  return mode;
}

std::shared_ptr<ServerTls> ServerTls::open(const config::Config& config, const Clock& clock) {
  const TlsMode mode = tls_mode(config);
  if (mode.level == TlsLevel::none) return nullptr;
  const std::shared_ptr<ServerTls> tls(new ServerTls);
  const auto configured = tls::configure_library(config.settings().tls_config_file, config.settings().tls_config_name);
  tls->keys_elsewhere_ = config::key_socket(config).has_value();
  auto options = configured ? context_options(config, clock, mode, tls->keys_elsewhere_)
                            : Result<tls::ContextOptions>(std::unexpected(configured.error()));
  if (!options) {
    tls->usable_settings_ = false;
    tls->warnings_.push_back(options.error().message() + ": TLS is not available");
    return tls;
  }
  tls->options_ = *std::move(options);
  for (const auto& pair : tls->options_.pairs) {
    tls->files_.push_back(pair.cert_file);
    tls->files_.push_back(pair.key_file);
  }
  tls->files_.insert(tls->files_.end(), tls->options_.chain_files.begin(), tls->options_.chain_files.end());
  if (!tls->options_.ca_file.empty()) tls->files_.push_back(tls->options_.ca_file);
  tls->dh_file_ = dh_file(config.settings());
  if (!tls->dh_file_.empty()) tls->files_.push_back(tls->dh_file_);
  tls->read_dh_parameters();
  if (tls->keys_elsewhere_) {
    tls->options_.keys_elsewhere = true;
    tls->pairs_ = std::exchange(tls->options_.pairs, {});
    tls->chain_files_ = std::exchange(tls->options_.chain_files, {});
    tls->sni_maps_ = join(config.settings().tls_server_sni_maps);
    return tls;
  }
  tls->load();
  return tls;
}

std::vector<std::string> ServerTls::problems(const config::Config& config) {
  const TlsMode mode = tls_mode(config);
  if (mode.level == TlsLevel::none) return {};
  if (const auto ok = tls::configure_library(config.settings().tls_config_file, config.settings().tls_config_name); !ok)
    return {ok.error().message() + ": TLS is not available"};
  auto options = context_options(config, system_clock(), mode, false);
  if (!options) return {options.error().message() + ": TLS is not available"};
  options->tickets = nullptr;
  std::vector<std::string> found;
  if (const std::string file = dh_file(config.settings()); !file.empty()) {
    auto pem = tls::read_file(file);
    if (pem)
      options->dh_parameters = *std::move(pem);
    else
      found.push_back("smtpd_tls_dh1024_param_file: " + pem.error().message() + ": OpenSSL chooses the parameters");
  }
  auto context = tls::Context::open(*std::move(options));
  if (!context)
    found.push_back(context.error().message() + ": TLS is not available until that is corrected");
  else
    found.insert(found.end(), (*context)->warnings().begin(), (*context)->warnings().end());
  return found;
}

std::vector<std::string> ServerTls::look(const std::vector<std::string>& files) {
  std::vector<std::string> facts;
  for (const auto& file : files) {
    struct stat s{};
    if (::stat(file.c_str(), &s) != 0)
      facts.push_back("errno " + std::to_string(errno));
    else
      facts.push_back(fmt::format("{} {} {} {}.{} {}.{}", s.st_dev, s.st_ino, s.st_size, s.st_mtim.tv_sec,
                                  s.st_mtim.tv_nsec, s.st_ctim.tv_sec, s.st_ctim.tv_nsec));
  }
  return facts;
}

void ServerTls::load() {
  seen_ = look(files_);  // before reading, so that a change during the reading is noticed
  read_dh_parameters();
  open_context();
}

void ServerTls::read_dh_parameters() {
  if (dh_file_.empty()) return;
  auto now = look({dh_file_});
  if (now == dh_seen_) return;
  dh_seen_ = std::move(now);
  auto pem = tls::read_file(dh_file_);
  if (pem)
    options_.dh_parameters = *std::move(pem);
  else
    warnings_.push_back("smtpd_tls_dh1024_param_file: " + pem.error().message() +
                        (options_.dh_parameters.empty() ? ": OpenSSL chooses the parameters"
                                                        : ": the parameters read before stay in use"));
}

void ServerTls::open_context() {
  auto context = tls::Context::open(options_);
  if (!context) {
    warnings_.push_back(context.error().message() + std::string(context_ ? kStay : kNone));
    return;
  }
  for (const auto& warning : (*context)->warnings()) warnings_.push_back(warning);
  context_ = *std::move(context);
}

void ServerTls::watch() {
  if (!usable_settings_) return;
  seen_ = look(files_);
  dh_seen_ = look({dh_file_});
}

std::shared_ptr<const tls::Context> ServerTls::context() {
  if (!usable_settings_) return nullptr;
  if (!keys_elsewhere_ && look(files_) != seen_) {
    load();
    for (const auto& warning : take_warnings()) log::warning("{}", warning);
  }
  return context_;
}

async::Task<std::shared_ptr<const tls::Context>> ServerTls::current(async::Until until) {
  if (!keys_elsewhere_ || !usable_settings_) co_return context();
  if (!client_) co_return nullptr;
  // Between two key processes a handshake must not begin with a certificate that the next one may not sign for.
  if (auto now = look(files_); client_->available() && (now != seen_ || !client_->current())) {
    seen_ = std::move(now);
    (void)co_await client_->renew(until);  // else what was there is used
  }
  if (client_->available()) co_return context_;
  log::warning("the key process does not answer: TLS is not available until it does");
  co_return nullptr;
}

void ServerTls::use_keys(std::shared_ptr<keys::Client> client) {
  client_ = std::move(client);
  client_->on_list = [this] { take_keys(); };
  if (sni_maps_.empty()) return;
  options_.ask_chain = [this](std::string_view name) {
    return keys::chain_for(client_, sni_maps_, to_lower(name), [shown = printable(name, 255)](const std::string& why) {
      log::warning("tls_server_sni_maps: {}: {}", shown, why);
    });
  };
}

void ServerTls::take_keys() {
  if (!usable_settings_) return;
  seen_ = look(files_);
  read_dh_parameters();
  options_.remote.clear();
  bool whole = true;
  const auto take = [&](const std::string& name, const std::string& shown) {
    const auto at = client_->held().find(name);
    const bool known = at != client_->held().end() && !at->second.id.empty();
    if (known) options_.remote.push_back(keys::certificate(client_, at->second));
    if (known && at->second.error.empty()) return;
    const std::string why =
        at == client_->held().end() ? shown + ": the key process has no such certificate" : at->second.error;
    warnings_.push_back(why + std::string(known ? kStay : kNone));
    whole = whole && known;
  };
  for (const auto& pair : pairs_) take(ipc::keys::pair_name(pair.cert_file, pair.key_file), pair.cert_file);
  if (!chain_files_.empty()) {
    const auto names = keys::chains_among(client_->held(), chain_files_);
    const auto wrong = client_->held().find(ipc::keys::chain_name(chain_files_, 0));
    if (wrong != client_->held().end() && wrong->first != names.front())
      warnings_.push_back(wrong->second.error + std::string(kStay));
    for (const auto& name : names) take(name, join(chain_files_));
  }
  if (whole)
    open_context();
  else
    context_ = nullptr;  // nobody signs for it
  for (const auto& warning : take_warnings()) log::warning("{}", warning);
}

std::vector<std::string> ServerTls::take_warnings() { return std::exchange(warnings_, {}); }

const std::string& ServerTls::ticket_problem() {
  static const std::string none;
  if (!options_.tickets || (!context_ && !keys_elsewhere_)) return none;
  (void)options_.tickets->current();
  return options_.tickets->problem();
}

}  // namespace pen::smtpd
