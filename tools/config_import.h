#pragma once
/// penstock import [--from DIR] [--to DIR]: the configuration of Postfix, or of Exim as Debian sets it up, taken over
/// into a directory of its own.
///
/// Use:     return ConfigImport({.from = "/etc/postfix", .to = "/etc/penstock"}).run();
/// Does:    copies the files beside main.cf too (tables, certificates, but none that Postfix has made), changes names
///          that lead to them, makes indexed tables from their texts (penmap --all), and says what acts, what is
///          different, and what could not be done. foreign_config.h has the texts.
/// Over:    a directory that holds a main.cf is left alone, but with force: then its own directories, account and log
///          stay set, and its two files are kept as main.cf.before-import and master.cf.before-import.
/// Crash:   main.cf is put in place last, each file in one step.
/// Bounds:  kMostFiles files, kMostBytes bytes.
#include <cstdint>
#include <string>
#include <vector>

#include "lib/config/config.h"
#include "tools/foreign_config.h"

namespace pen::tools {

class ConfigImport {
 public:
  struct Options {
    std::string from = "/etc/postfix", to;
    bool dry_run = false, json = false, force = false;
  };
  explicit ConfigImport(Options options) : options_(std::move(options)) {}
  /// EX_OK: mail will flow; kLoses: some mail will be refused or wait; EX_NOINPUT, EX_CANTCREAT, EX_CONFIG, EX_OSERR.
  int run();
  static constexpr int kLoses = 1;
  static constexpr std::size_t kMostFiles = 10'000;
  static constexpr std::uint64_t kMostBytes = 1ULL << 30;

 private:
  struct File {
    std::string path;  // below the directory
    std::uint64_t size = 0;
    unsigned mode = 0;
    bool link = false;
  };
  Result<void> read_postfix();
  Result<void> read_exim();
  Result<void> find_files();
  Result<void> keep_own_settings();
  Result<void> write();
  Result<void> put(const std::string& name, const std::string& text, unsigned mode);
  Result<void> copy(const File& file);
  int make_tables();
  void judge(const config::Config& config, bool tables);
  int report();

  Options options_;
  bool exim_ = false;
  std::vector<File> files_;
  ForeignText main_, master_;
  std::vector<std::pair<std::string, std::string>> more_;  // further files: name and text
  std::vector<Dropped> dropped_;
  std::vector<std::string> acts_;
  config::Problems differs_;
  std::vector<std::string> cannot_;
};

}  // namespace pen::tools
