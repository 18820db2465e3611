#pragma once
/// Changes outgoing mail as smtp_header_checks, its like, and smtp_generic_maps say.
///
/// Use:     settings.rules = open_rules(config, lmtp);        // nullptr, as a rule: content then goes as it is stored
///          RewrittenContent content(*settings.rules, queue_id);
///          out.clear(); content.feed(chunk, out); send out; …     // in order, cut anywhere
///          content.finish(out);  if (!content.failed().empty()) … // the message must not end here
///          map_envelope(*settings.rules, job)
/// Rules:   the stored message stays as it is; the change is for one delivery. Changed content goes by DATA, because
///          its size is not known beforehand. Binary content is not changed.
/// Bounds:  one header field or line of a body in memory.
/// Source:  header_checks(5) (FILTERS WHILE DELIVERING MAIL), generic(5) of Postfix; docs/content-checks.md.
#include <memory>
#include <optional>
#include <string>

#include "lib/config/config.h"
#include "lib/mail/wire.h"
#include "lib/map/map.h"
#include "lib/map/status_filter.h"
#include "lib/meaning/smtp/settings.h"
#include "lib/receive/intake/checked_content.h"
#include "lib/receive/resolve/generic.h"
#include "lib/suite/ipc/delivery.h"

namespace pen::smtp {

struct ContentRules {
  std::shared_ptr<const intake::CheckTables> checks;  // nullptr: none
  std::optional<resolve::Generic> generic;
  mail::MimeWalker::Options walk;  // without checks
  std::vector<Error> problems() const;
};

/// The rules of a service; nullptr: nothing is set. Errors: a table that cannot be used.
Result<std::shared_ptr<const ContentRules>> open_rules(const config::Settings& settings, bool lmtp);
/// smtp_delivery_status_filter; nullptr: there is none. Errors as open_rules().
Result<std::shared_ptr<const map::StatusFilter>> open_filter(const config::Settings& settings, bool lmtp);
/// smtp_reply_filter, smtp_discard_ehlo_keyword_address_maps, smtp_tls_loglevel_maps: puts the tables into `into`.
/// Returns what is wrong with them now. Errors as open_rules().
Result<std::vector<Error>> open_server_tables(const config::Settings& settings, bool lmtp, Settings& into);

/// Puts generic addresses into the envelope. True: something changed. Errors: a table failed (temporary).
Result<bool> map_envelope(const ContentRules& rules, ipc::delivery::Job& job);

/// The checks that CheckedContent points to: a base class of its own, to be constructed first.
struct RewrittenChecks {
  std::optional<intake::Checks> checks;
};
class RewrittenContent final : private RewrittenChecks, private intake::CheckedContent {
 public:
  RewrittenContent(const ContentRules& rules, std::string queue_id);
  /// Appends to out.
  void feed(std::string_view chunk, std::string& out);
  void finish(std::string& out);
  /// The table that could not be read; empty: no error.
  const std::string& failed() const { return failed_; }

 private:
  void out(std::string_view part) override { *out_ += part; }
  void out_end() override { *out_ += "\r\n"; }
  void checked() override;
  bool message_field(std::string_view original, std::string& text, bool kept, bool whole) override;

  const ContentRules& rules_;
  mail::BdatScanner scanner_{{.replace_bare_cr = false}};
  std::string* out_ = nullptr;
  bool plain_ = false;  // the rest of the content passes unchanged
  std::string failed_;
};

}  // namespace pen::smtp
