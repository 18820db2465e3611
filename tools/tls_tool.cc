#include "tools/tls_tool.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <sysexits.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <ctime>
#include <iterator>
#include <utility>

#include "lib/base/date.h"
#include "lib/base/fd.h"
#include "lib/base/network.h"
#include "lib/base/text.h"
#include "lib/mail/address.h"
#include "lib/net/tls/certificate_file.h"
#include "lib/net/tls/own_key.h"
#include "tools/output.h"
#include "tools/settings_change.h"

namespace pen::tools {
namespace {

constexpr const char* kProgram = "penstock";
using What = TlsTool::What;

struct Row {
  const char* name;
  What what;
  const char* words;
  const char* text;
};
constexpr Row kRows[] = {
    {"all-default-client", What::default_client, "", "exit status 0 if nothing of TLS is set for the SMTP client"},
    {"all-default-server", What::default_server, "", "the same for the SMTP server"},
    {"enable-client", What::enable_client, " [-r SOURCE]",
     "the SMTP client uses TLS where servers offer it; suggestions, where something is set already"},
    {"enable-server", What::enable_server, " [-r SOURCE] [-a ALGORITHM] [-b BITS] [HOST ...]",
     "the SMTP server offers TLS, with a new key and a certificate that it signs itself; suggestions, where something "
     "is set already"},
    {"new-server-key", What::new_key, " [-a ALGORITHM] [-b BITS] [HOST ...]",
     "a new key, and a certificate for HOST that it signs itself, not yet in use"},
    {"new-server-cert", What::new_certificate, " [HOST ...]",
     "a new certificate that the key in use signs itself, not yet in use"},
    {"deploy-server-cert", What::deploy, " CERTFILE KEYFILE", "use this certificate and its key"},
    {"output-server-csr", What::request, " [-k KEYFILE] [HOST ...]",
     "a request for a certificate, for an authority, with the key in use"},
    {"output-server-tlsa", What::tlsa, " [-h HOST] [KEYFILE ...]",
     "the TLSA records of DNS for DANE, for the key in use"},
    {"probe", What::probe, " [-p PORT] [-w] DOMAIN|[HOST] ...",
     "what others offer in TLS, and whether their certificates are trusted and theirs"},
};

int fail_with(int status, const std::string& text) {
  std::fprintf(stderr, "%s: %s\n", kProgram, text.c_str());
  return status;
}

int fail_with(const Error& error) { return fail_with(EX_CANTCREAT, error.message()); }

/// A new file that nobody else may read, or everybody; on the disk before it is named to anybody.
Result<void> write_new(const std::string& path, const std::string& text, mode_t mode) {
  const Fd fd(::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, mode));
  if (!fd) return fail_errno("create " + path);
  const ssize_t n = ::write(fd.get(), text.data(), text.size());
  if (n == static_cast<ssize_t>(text.size()) && ::fchmod(fd.get(), mode) == 0 && ::fsync(fd.get()) == 0) return {};
  const int error = n >= 0 && n != static_cast<ssize_t>(text.size()) ? ENOSPC : errno;
  ::unlink(path.c_str());
  return fail_errno("write " + path, error);
}

bool of_tls(std::string_view name, bool server) {
  const std::string_view side = server ? "smtpd_" : "smtp_";
  if (!name.starts_with(side)) return false;
  name.remove_prefix(side.size());
  return name.starts_with("tls_") || name == "use_tls" || name == "enforce_tls";
}

std::string lines_of(const std::vector<config::Edit>& edits) {
  std::string out;
  for (const auto& e : edits) out += fmt::format("    {} = {}\n", e.name, e.value);
  return out;
}

std::string stamp_of(WallTime now) { return local_text(now, "%Y%m%d-%H%M%S"); }

constexpr int kSameSecond = 100;

constexpr const char* kReload = "What runs uses it after: penstock reload\n";

}  // namespace

std::expected<TlsTool::Options, service::Ending> TlsTool::read(const std::vector<std::string>& words) {
  Options o;
  const auto* row = words.size() > 1 ? std::ranges::find(kRows, words[1], &Row::name) : std::end(kRows);
  service::CommandLine line{.program = kProgram,
                            .usage = {"penstock [-c DIR] tls SUBCOMMAND"},
                            .about = "Switches TLS on; makes keys and certificates.",
                            .options = {},
                            .options_end_at_a_word = true};
  std::vector<const char*> argv;
  if (row == std::end(kRows)) {
    for (const Row& r : kRows) line.options.push_back({std::string(r.name) + r.words, r.text});
    for (const std::string& word : words) argv.push_back(word.c_str());
    const auto rest = line.read(static_cast<int>(argv.size()), argv.data());
    if (!rest) return std::unexpected(rest.error());
    if (rest->empty()) return std::unexpected(line.incomplete());
    return std::unexpected(line.misuse("tls: unknown subcommand \"" + printable(rest->front()) + "\""));
  }
  o.what = row->what;
  line.usage = {std::string("penstock [-c DIR] tls ") + row->name + row->words};
  line.about = row->text;
  line.options_end_at_a_word = false;
  const bool makes_key = o.what == What::enable_server || o.what == What::new_key;
  if (makes_key)
    line.options = {{"-a ALGORITHM", "rsa (the default) or ecdsa", service::into(o.algorithm)},
                    {"-b BITS", "2048 for rsa, 256 for ecdsa", service::into(o.bits, 1, 65536)}};
  if (o.what == What::enable_client || o.what == What::enable_server)
    line.options.push_back({"-r SOURCE", "changes nothing: the kernel's random numbers are used",
                            [](const auto&) { return std::string(); }});
  if (o.what == What::request) line.options = {{"-k KEYFILE", "this key", service::into(o.key_file)}};
  if (o.what == What::probe)
    line.options = {{"-p PORT", "25 if it is not given", service::into(o.probe.port, 1, 65535)},
                    {"-w", "TLS from the first byte, as at port 465", service::set(o.probe.wrapped)}};
  if (o.what == What::tlsa) line.options = {{"-h HOST", "for this host (myhostname)", service::into(o.host)}};
  for (std::size_t i = 1; i < words.size(); ++i) argv.push_back(words[i].c_str());
  auto rest = line.read(static_cast<int>(argv.size()), argv.data());
  if (!rest) return std::unexpected(rest.error());
  o.words = *std::move(rest);
  if (o.what == What::probe) {
    if (o.words.empty()) return std::unexpected(line.incomplete());
    for (const std::string& target : o.words)
      if (const bool host = target.starts_with('[') && target.ends_with(']');
          !mail::valid_hostname(host ? target.substr(1, target.size() - 2) : target) &&
          !parse_ip(host ? target.substr(1, target.size() - 2) : target))
        return std::unexpected(line.misuse("neither a domain nor [host]: " + printable(target)));
    return o;
  }
  const bool takes_hosts = makes_key || o.what == What::new_certificate || o.what == What::request;
  if (o.what == What::deploy && o.words.size() != 2)
    return std::unexpected(line.misuse("deploy-server-cert needs a certificate's file and its key's"));
  if (o.words.empty() || o.what == What::deploy || o.what == What::tlsa) {
    if (o.host.empty() || mail::valid_hostname(o.host)) return o;
    return std::unexpected(line.misuse("-h: no name of a host: " + printable(o.host)));
  }
  if (!takes_hosts) return std::unexpected(line.misuse("unexpected \"" + printable(o.words.front()) + "\""));
  for (const std::string& host : o.words)
    if (!mail::valid_hostname(host)) return std::unexpected(line.misuse("no name of a host: " + printable(host)));
  return o;
}

TlsTool::TlsTool(Options options, std::string directory)
    : options_(std::move(options)), directory_(std::move(directory)), config_(load_instance(kProgram, directory_)) {}

std::string TlsTool::value(std::string_view name) const {
  return config_.expand(config_.written(name).value_or("")).value_or("");
}

std::string TlsTool::key_in_use() const {
  for (const char* name : {"smtpd_tls_chain_files", "smtpd_tls_key_file"}) {
    const auto files = split_list(value(name));
    if (!files.empty() && files.front() != "none") return std::string(files.front());
  }
  return {};
}

std::vector<std::string> TlsTool::hosts() const {
  if (!options_.words.empty()) return options_.words;
  return {config_.settings().myhostname};
}

int TlsTool::run() {
  const auto all_default = [this](bool server) {
    return std::ranges::none_of(config_.names_set(), [&](const std::string& name) {
      const config::Row* row = of_tls(name, server) ? config::find_row(name) : nullptr;
      return of_tls(name, server) && (row == nullptr || row->default_text != config_.written(name));
    });
  };
  switch (options_.what) {
    case What::default_client:
      return all_default(false) ? EX_OK : 1;
    case What::default_server:
      return all_default(true) ? EX_OK : 1;
    case What::enable_client:
    case What::enable_server: {
      const bool server = options_.what == What::enable_server;
      if (all_default(server)) return enable(server);
      print(
          fmt::format("Settings of TLS for the SMTP {} are in main.cf: nothing is changed. Without them it would be:\n",
                      server ? "server" : "client"));
      print(server ? "    smtpd_tls_security_level = may\n"
                     "    smtpd_tls_cert_file, smtpd_tls_key_file: of penstock tls new-server-key\n"
                     "    smtpd_tls_loglevel = 1\n    smtpd_tls_received_header = yes\n"
                   : "    smtp_tls_security_level = may\n    smtp_tls_loglevel = 1\n");
      return EX_OK;
    }
    case What::new_key:
      return make(true);
    case What::new_certificate:
      return make(false);
    case What::probe:
      return TlsProbe(config_.settings(), options_.probe).run(options_.words);
    case What::deploy:
      return deploy();
    case What::request:
      return output_request();
    case What::tlsa:
      return output_tlsa();
  }
  return EX_SOFTWARE;
}

int TlsTool::enable(bool server) {
  std::vector<config::Edit> edits;
  const auto set = [&edits](const char* name, std::string to) {
    edits.push_back({.name = name, .value = std::move(to)});
  };
  if (server) {
    const auto pair = make_pair(hosts());
    if (!pair) return fail_with(pair.error());
    set("smtpd_tls_key_file", pair->key);
    set("smtpd_tls_cert_file", pair->certificate);
    set("smtpd_tls_security_level", "may");
    set("smtpd_tls_loglevel", "1");
    set("smtpd_tls_received_header", "yes");
  } else {
    set("smtp_tls_security_level", "may");
    set("smtp_tls_loglevel", "1");
  }
  if (const int status = change_main_cf(directory_, edits); status != EX_OK) return status;
  print(fmt::format("TLS is on in the SMTP {}:\n", server ? "server" : "client") + lines_of(edits) + kReload);
  return EX_OK;
}

Result<TlsTool::Pair> TlsTool::make_pair(const std::vector<std::string>& hosts) {
  PEN_TRY_ASSIGN(const auto key, tls::OwnKey::make(options_.algorithm, options_.bits));
  const WallTime now = system_clock().wall_now();
  PEN_TRY_ASSIGN(const std::string key_text, key.pem());
  PEN_TRY_ASSIGN(const std::string certificate, key.certificate(hosts, now));
  const std::string stamp = stamp_of(now);
  // Two of one second have names of their own.
  for (int i = 1;; ++i) {
    const std::string ending = (i == 1 ? stamp : fmt::format("{}.{}", stamp, i)) + ".pem";
    Pair pair{directory_ + "/key-" + ending, directory_ + "/cert-" + ending};
    const auto written = write_new(pair.key, key_text, 0600);
    if (!written && written.error().is_errno(EEXIST) && i < kSameSecond) continue;
    if (!written) return fail(written.error());
    PEN_TRY(write_new(pair.certificate, certificate, 0644));
    return pair;
  }
}

int TlsTool::make(bool key) {
  if (key) {
    const auto pair = make_pair(hosts());
    if (!pair) return fail_with(pair.error());
    print(
        fmt::format("A new key and a certificate that it signs itself are there and not in use:\n    {0}\n    {1}\n"
                    "With DANE, DNS must have its record first: penstock tls output-server-tlsa {1}\n"
                    "A request for an authority:               penstock tls output-server-csr -k {1}\n"
                    "To use them:                              penstock tls deploy-server-cert {0} {1}\n",
                    pair->certificate, pair->key));
    return EX_OK;
  }
  const std::string file = key_in_use();
  if (file.empty()) return fail_with(EX_CONFIG, "no key is in use: penstock tls enable-server, or new-server-key");
  const auto used = tls::OwnKey::read(file);
  if (!used) return fail_with(EX_NOINPUT, used.error().message());
  auto names = options_.words;
  if (names.empty()) {
    // For the hosts that the certificate in use is for.
    const auto before = tls::certificate_hosts(value("smtpd_tls_cert_file"));
    names = before && !before->empty() ? *before : hosts();
  }
  const WallTime now = system_clock().wall_now();
  const auto certificate = used->certificate(names, now);
  if (!certificate) return fail_with(certificate.error());
  std::string path;
  for (int i = 1;; ++i) {
    path = fmt::format("{}/cert-{}{}.pem", directory_, stamp_of(now), i == 1 ? "" : fmt::format(".{}", i));
    const auto written = write_new(path, *certificate, 0644);
    if (written) break;
    if (!written.error().is_errno(EEXIST) || i == kSameSecond) return fail_with(written.error());
  }
  print(
      fmt::format("A new certificate for {} is there and not in use: {}\n"
                  "To use it: penstock tls deploy-server-cert {} {}\n",
                  join(names, ", "), path, path, file));
  return EX_OK;
}

int TlsTool::deploy() {
  const std::string &certificate = options_.words[0], &key = options_.words[1];
  if (!value("smtpd_tls_chain_files").empty())
    return fail_with(EX_CONFIG,
                     "smtpd_tls_chain_files is set, which goes before smtpd_tls_cert_file: change it by hand");
  const auto fits = tls::key_fits(key, certificate);
  if (!fits) return fail_with(EX_NOINPUT, "the key or the certificate cannot be read");
  if (!*fits) return fail_with(EX_DATAERR, key + " is not the key of the first certificate in " + certificate);
  std::vector<config::Edit> edits = {{.name = "smtpd_tls_cert_file", .value = certificate},
                                     {.name = "smtpd_tls_key_file", .value = key}};
  if (value("smtpd_tls_security_level").empty()) edits.push_back({.name = "smtpd_tls_security_level", .value = "may"});
  if (const int status = change_main_cf(directory_, edits); status != EX_OK) return status;
  print("In use from the next reload on:\n" + lines_of(edits) + kReload);
  return EX_OK;
}

int TlsTool::output_request() {
  const std::string file = options_.key_file.empty() ? key_in_use() : options_.key_file;
  if (file.empty()) return fail_with(EX_CONFIG, "no key is in use: name one by -k");
  const auto key = tls::OwnKey::read(file);
  if (!key) return fail_with(EX_NOINPUT, key.error().message());
  const auto request = key->request(hosts());
  if (!request) return fail_with(request.error());
  print(*request);
  return EX_OK;
}

int TlsTool::output_tlsa() {
  std::vector<std::string> files = options_.words;
  if (files.empty()) files.push_back(key_in_use());
  if (files.front().empty()) return fail_with(EX_CONFIG, "no key is in use: name its file");
  const std::string host = options_.host.empty() ? config_.settings().myhostname : options_.host;
  for (const std::string& file : files) {
    const auto key = tls::OwnKey::read(file);
    if (!key) return fail_with(EX_NOINPUT, key.error().message());
    const auto digest = key->digest();
    if (!digest) return fail_with(digest.error());
    print(fmt::format("; {}\n_25._tcp.{}. IN TLSA 3 1 1 {}\n", file, host, *digest));
  }
  return EX_OK;
}

}  // namespace pen::tools
