#pragma once
/// DKIM keys that the key process holds: which there are, and signatures by them.
///
/// Use:     auto keys = std::make_shared<RemoteKeys>(loop, path, log::as_warning);   keys->start();
///          auto signing = Signing::open(settings, clock, keys);
///          auto found = keys->find(table, "example.org.mail2026");   co_await keys->sign(*found.key, digest, until)
/// Errors:  of find(): none: the list is not there yet, or the key process said why there is no such key. For the log;
///          the mail must wait.
/// Thread:  the loop's.
/// Source:  docs/keys.md.
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "lib/config/config.h"
#include "lib/trust/dkim/key.h"
#include "lib/trust/key_client/client.h"

namespace pen::signing {

enum class RemoteKeyError { no_list = 1, no_key, refused, gone };
std::string_view error_module(RemoteKeyError);
std::string_view describe(RemoteKeyError);

class RemoteKeys {
 public:
  using Report = std::function<void(const std::string& line)>;
  RemoteKeys(async::Loop& loop, std::string path, Report report);
  /// As the settings say, and started; nullptr: nothing is signed, or programs read their keys themselves. seals: this
  /// program seals too (arc_seal_key).
  static std::shared_ptr<RemoteKeys> open(async::Loop& loop, const config::Config& config, Report report,
                                          bool seals = false);
  void start() { client_->start(); }
  async::Task<bool> listed(async::Until until) { return client_->listed(until); }

  struct Found {
    std::shared_ptr<const dkim::SigningKey> key;
    std::string domain, selector;
  };
  /// By the name that the table gives it. nullopt: the table has no such name.
  Result<std::optional<Found>> find(const std::string& table, const std::string& name) const;
  /// False: a table that cannot be listed; the signer reads the keys.
  bool lists(const std::string& table) const;
  /// Why keys cannot be had now, for the log at start.
  std::vector<std::string> problems(const std::string& table) const;
  /// Asks for the list again: a table or a key may have changed.
  void refresh() { client_->ask_for_list(); }

  static constexpr seconds kPatience{30};  // then the mail waits elsewhere
  async::Task<Result<std::string>> sign(const dkim::SigningKey& key, std::string digest, async::Until until) const;

 private:
  async::Loop& loop_;
  std::shared_ptr<keys::Client> client_;
};

}  // namespace pen::signing
