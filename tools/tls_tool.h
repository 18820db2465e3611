#pragma once
/// penstock tls: switches TLS on, makes keys and certificates, says what others must know of them, as `postfix tls`
/// does, and what others offer (tls_probe.h). Manual: man/penstock.1.
///
/// Use:     auto options = TlsTool::read(words);   return TlsTool(*std::move(options), directory).run();
/// Makes:   key-DATE-TIME.pem (mode 0600) and cert-DATE-TIME.pem in the directory of main.cf; no file is replaced.
/// Changes: main.cf, only where everything of TLS has its default (enable-client, enable-server), or as ordered
///          (deploy-server-cert). What runs uses it after a reload.
/// Errors:  EX_CONFIG, EX_DATAERR (key and certificate do not belong together), EX_CANTCREAT, EX_NOINPUT.
#include <expected>
#include <string>
#include <vector>

#include "lib/base/result.h"
#include "lib/config/config.h"
#include "lib/suite/service/command_line.h"
#include "tools/tls_probe.h"

namespace pen::tools {

class TlsTool {
 public:
  enum class What {
    default_client,
    default_server,
    enable_client,
    enable_server,
    new_key,
    new_certificate,
    deploy,
    request,
    tlsa,
    probe
  };
  struct Options {
    What what = What::default_client;
    std::string algorithm = "rsa";
    int bits = 0;  // as the algorithm has it
    std::string key_file, host;
    TlsProbe::Options probe = {};
    std::vector<std::string> words;  // hosts or files
  };
  /// words: behind "tls"; the first is the subcommand.
  static std::expected<Options, service::Ending> read(const std::vector<std::string>& words);

  TlsTool(Options options, std::string directory);
  int run();

 private:
  struct Pair {
    std::string key, certificate;
  };
  int enable(bool server);
  int make(bool key);
  int deploy();
  int output_request();
  int output_tlsa();
  Result<Pair> make_pair(const std::vector<std::string>& hosts);
  /// Of settings, expanded. Empty: not set.
  std::string value(std::string_view name) const;
  std::string key_in_use() const;
  std::vector<std::string> hosts() const;

  Options options_;
  std::string directory_;
  config::Config config_;
};

}  // namespace pen::tools
