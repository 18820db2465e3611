#pragma once
/// pendkim: makes keys, shows their DNS records, signs and verifies messages, compares keys with DNS, prepares the next
/// key of a domain. Manual: man/pendkim.1.
///
/// Use:     return service::run_tool<DkimTool>(argc, argv);
/// Thread:  one; DNS is asked on a loop of its own.
#include <expected>
#include <map>
#include <string>
#include <vector>

#include "lib/suite/service/command_line.h"
#include "lib/trust/dkim/key.h"
#include "lib/trust/dkim/verify.h"

namespace pen::tools {

/// The lines "NAME TEXT" of a file in place of DNS: pendkim verify --key-file. Names without a final dot, in any case.
std::map<std::string, dkim::KeyAnswer> parse_key_file(std::string_view text);
/// The record of a key: "v=DKIM1; k=rsa; p=…".
std::string record_of(const dkim::PrivateKey& key);

class DkimTool {
 public:
  enum class Command : std::uint8_t { generate, dns, sign, verify, check, rotate };
  struct Options {
    Command command = Command::check;
    std::string directory;  // of the instance
    std::string domain, selector;
    int rsa_bits = static_cast<int>(dkim::kUsualBits);
    bool ed25519 = false;
    std::string target = ".";  // --dir
    std::string key, key_file;
    std::string canonicalization;
    std::string from;  // rotate: the date
  };
  static std::expected<Options, service::Ending> read(int argc, const char* const* argv);

  explicit DkimTool(Options options) : options_(std::move(options)) {}
  int run();

 private:
  int generate();
  int dns();
  int sign();
  int verify();
  int check();
  int rotate();

  Options options_;
};

}  // namespace pen::tools
