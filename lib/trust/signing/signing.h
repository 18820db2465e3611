#pragma once
/// Which authors are signed for, and with which keys: the settings named dkim_, or an opendkim.conf in place of them.
///
/// Use:     auto signing = Signing::open(settings);            // nullptr: dkim_signing = no
///          auto signing = Signing::open(settings, clock, remote_keys);     // keys are those of the key process
///          if (signing->trusts(client name, address)) …
///          auto keys = signing->keys_for("jo@example.org");     // empty: this address is not signed
/// Files:   tables and keys are read again when they change.
/// Errors:  a table or a key that cannot be read now. The mail must wait: unsigned it would be refused elsewhere.
/// Thread:  any. No look-up waits: tables that other processes serve are refused when they are opened.
/// Source:  OpenDKIM; docs/dkim.md.
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "lib/base/result.h"
#include "lib/base/time.h"
#include "lib/config/settings.h"
#include "lib/map/file_map.h"
#include "lib/map/map.h"
#include "lib/map/match_list.h"
#include "lib/trust/dkim/opendkim_files.h"
#include "lib/trust/dkim/peer_list.h"
#include "lib/trust/dkim/sign.h"
#include "lib/trust/signing/keys.h"
#include "lib/trust/signing/remote_keys.h"
#include "lib/trust/signing/rotation.h"

namespace pen::signing {

enum class SigningError { settings = 1, no_key, too_many, waits };
std::string_view error_module(SigningError);
std::string_view describe(SigningError);

class Signing {
 public:
  // Each costs a verifier a query and a public key operation; verifiers look at about ten.
  static constexpr std::size_t kMostKeys = 8;

  static Result<std::shared_ptr<const Signing>> open(const config::Settings& s, const Clock& clock = system_clock(),
                                                     std::shared_ptr<RemoteKeys> elsewhere = nullptr);

  /// The keys by name alone, whatever dkim_signing and the Mode of an opendkim.conf say: for named_key(), and for what
  /// lists keys. No table of senders is needed.
  static Result<std::shared_ptr<const Signing>> open_keys(const config::Settings& s,
                                                          const Clock& clock = system_clock(),
                                                          std::shared_ptr<RemoteKeys> elsewhere = nullptr);

  Result<bool> trusts(std::string_view name, std::string_view address) const;
  /// Nothing is said of mail that such a client sends in the name of a domain that is signed (ExternalIgnoreList).
  bool ignores(std::string_view name, std::string_view address) const { return ignored_.matches(name, address); }
  /// The fields that name the author: the first of them that is there.
  const std::vector<std::string>& author_fields() const { return author_fields_; }
  /// Whether this address is signed, where it may be; asks for no key.
  Result<bool> names(std::string_view from) const;
  Result<std::vector<dkim::SignWith>> keys_for(std::string_view from) const;
  const dkim::SigningForm& form() const { return form_; }
  /// The key of this name in the table, or, of an opendkim.conf with one key, of this domain; not one with % for the
  /// sender's domain.
  Result<dkim::SignWith> named_key(const std::string& name) const;
  /// The dates of keys; nullptr: all sign at any time.
  const Rotation* rotation() const { return rotation_.get(); }
  /// For the log at start: options without effect, tables and keys that cannot be read now.
  std::vector<std::string> warnings() const;
  /// Every key that the tables name, for checks: those with % for the sender's domain are left out.
  struct Named {
    std::string name;
    dkim::KeyEntry entry;
    std::string where = {};  // for errors; empty: nothing to add
  };
  /// The table that named_keys() come from: a file, or an opendkim.conf with one key.
  const std::string& key_table() const { return key_file_name_; }
  /// False: named_keys() does not name all.
  Result<bool> listable() const;
  Result<std::vector<Named>> named_keys() const;
  Result<std::shared_ptr<const dkim::PrivateKey>> key(const dkim::KeyEntry& entry) const;

  /// Where keys are those of the key process: whether this signer has one, and a signature by one.
  bool remote(const dkim::Signer& signer) const;
  bool remote(const dkim::SigningKey& key) const;
  async::Task<Result<std::string>> sign(const dkim::SigningKey& key, std::string digest, async::Until until) const;

 private:
  using Lines = std::vector<dkim::DataEntry>;
  /// Tables of OpenDKIM's form, or our own.
  using KeyTable = std::variant<std::monostate, std::shared_ptr<map::Reloading<Lines>>, map::MapList>;
  using SenderTable = std::variant<std::monostate, std::shared_ptr<map::Reloading<dkim::SigningTable>>, map::MapList>;
  struct OneKey {  // Domain, Selector, KeyFile
    std::vector<std::string> domains;
    std::string selector, file;
    bool sub_domains = false;
    bool patterns = false;
    /// The domain that signs for this one, by one of the domains; empty: none does.
    std::string signs_for(std::string_view domain, const std::string& own) const;
  };

  Result<void> read_settings(const config::Settings& s, const Clock& clock);
  Result<void> read_conf(const config::Settings& s, const Clock& clock);
  Result<void> open_tables(const std::optional<dkim::OpendkimConf::Source>& keys,
                           const std::optional<dkim::OpendkimConf::Source>& senders, const config::Settings& s,
                           const Clock& clock);
  /// The values for an address, each with the place where it stands.
  struct Found {
    std::string value, where;
  };
  Result<std::vector<Found>> look_up(std::string_view from) const;
  Result<std::optional<Found>> key_value(const std::string& name) const;
  Result<std::vector<dkim::SignWith>> with_one_key(std::string_view domain) const;
  /// The key that a name of the table stands for, with the domain and the selector that go with it.
  Result<dkim::SignWith> find_key(const std::string& name, const std::string& domain, const std::string& where) const;

  bool on_ = true;
  bool by_name_ = false;  // open_keys()
  KeyTable key_table_;
  SenderTable sender_table_;
  std::string key_file_name_, sender_file_name_;  // for errors
  std::optional<OneKey> one_key_;
  bool all_matches_ = false;
  map::MatchList trusted_;
  std::optional<dkim::PeerList> peers_;  // in place of trusted_, by an opendkim.conf
  dkim::PeerList ignored_;
  std::vector<std::string> author_fields_ = {"From"};
  dkim::SigningForm form_;
  std::unique_ptr<SigningKeys> keys_;
  std::unique_ptr<const Rotation> rotation_;  // nullptr: no dates
  std::shared_ptr<RemoteKeys> elsewhere_;     // nullptr: keys are files of this process
  std::vector<std::string> notes_;
};

}  // namespace pen::signing
