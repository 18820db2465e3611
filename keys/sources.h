#pragma once
/// The keys that the settings name: which files, read into the vault, and read again when they change.
///
/// Use:     Sources sources(config, clock);   sources.load(vault);        // with root's rights
///          sources.watch();                                              // without: later differences are changes
///          sources.look(vault);                                           // reads again what has changed
///          sources.look_closely(vault);               // also of files that only root can look at, when they are lent
///          sources.complete(use, listed);                          // adds what is wrong to a list
///          sources.find(maps, name)                                       // tls_server_sni_maps
/// Which:   the certificates of every smtpd, smtp and lmtp service of master.cf, with its -o; the DKIM keys of every
///          smtpd, pickup, qmqpd and bounce service.
/// Closed:  files that this process may not look at are lent to it (lib/suite/service/table_opener.h), each time: it
///          blocks until they are there.
/// Errors:  are kept with the names, and each change of one is in take_news(), for the log.
/// Bounds:  those of the vault; kMostErrors in a list.
/// Thread:  one. Reads files.
/// Source:  docs/keys.md.
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "lib/config/config.h"
#include "lib/map/map.h"
#include "lib/trust/keys/vault.h"
#include "lib/trust/signing/signing.h"

namespace pen::keys {

class Sources {
 public:
  static constexpr std::size_t kMostErrors = 1000;
  // Files of a server's name are not asked for again so soon: each costs a process.
  static constexpr seconds kRecent{10};

  Sources(const config::Config& config, const Clock& clock);
  void load(Vault& vault);
  void watch();
  /// True: a certificate or a key of TLS is another one now.
  bool look(Vault& vault);
  bool look_closely(Vault& vault);
  /// Whether there are files that look() alone cannot look at.
  bool closed() const { return !lent_.empty(); }
  void complete(Use use, ipc::keys::Listed& listed) const;
  std::vector<std::string> take_news() { return std::exchange(news_, {}); }
  /// Files whose certificates are used now in place of others.
  std::vector<std::string> take_renewed() { return std::exchange(renewed_, {}); }
  std::size_t errors() const { return errors_[0].size() + errors_[1].size() + errors_[2].size(); }

  /// The keys of names that clients asked for are in a vault of their own: nobody lists them.
  ipc::keys::Listed find(const ipc::keys::Find& wanted);
  const Vault& by_name() const { return by_name_; }

 private:
  /// By file, what shows whether it was changed or replaced.
  using Facts = std::map<std::string, std::string>;
  struct Files {
    Use use = Use::server;
    std::string cert_file, key_file;
    std::vector<std::string> chains;  // or these, with keys, certificates and chains
    std::vector<std::string> names;   // in the vault
    Facts seen;

    std::string name() const;
    std::vector<std::string> all() const;
  };
  struct Signer {
    std::string table;
    std::shared_ptr<const signing::Signing> signing;
    std::map<std::string, std::shared_ptr<const dkim::PrivateKey>> put;  // by name in the vault
  };
  void add_files(Use use, const std::vector<std::pair<std::string, std::string>>& pairs,
                 const std::vector<std::string>& chain_files);
  /// may_seal: of an smtpd.
  void add_signer(const config::Settings& s, bool may_seal, const Clock& clock);
  void load(Vault& vault, Files& files);
  void load(Vault& vault, Signer& signer);
  void wrong(Use use, const std::string& name, std::string why);
  void right(Use use, const std::string& name) { errors_[static_cast<std::size_t>(use)].erase(name); }
  Facts facts(const Files& files) const;
  /// What a name of a table stands for.
  struct ByName {
    std::string value, digest;  // of the text that was put
    std::size_t chains = 0;
    SteadyTime read{};
    std::string wrong;  // with the files as they are now
  };
  static Result<std::string> text_of_chain(const std::string& value);
  Result<void> put_chains(const std::string& name, ByName& known, const std::string& value);
  Result<std::vector<ipc::keys::Held>> chains_of(const std::string& name, const std::string& value);

  std::vector<Files> files_;
  std::vector<Signer> signers_;
  std::set<std::string> signer_settings_;
  std::map<std::string, map::MapList> sni_;  // by the setting's value
  std::array<std::map<std::string, std::string>, kUses> errors_;
  std::vector<std::string> news_, renewed_;
  Facts lent_;  // of files that this process may not look at, as they were when they were lent last
  Vault by_name_;
  std::map<std::string, ByName> put_by_name_;
  const Clock& clock_;
};

/// Keys with the certificates behind each, as chain files have them. Errors: KeyError.
struct OwnedPair {
  std::string key, certificates;
};
Result<std::vector<OwnedPair>> split_chains(std::string_view pem, const std::string& name);

}  // namespace pen::keys
