#pragma once
/// The command line of sendmail, as other programs call it. As newaliases or mailq it does those commands' work.
///
/// Use:     auto options = SendmailOptions::read(argc, argv);
///          if (!options) return options.error().print();
/// Source:  Postfix sendmail(1), Sendmail.
#include <expected>
#include <optional>
#include <string>
#include <vector>

#include "lib/suite/service/command_line.h"
#include "tools/sendmail_submit.h"

namespace pen::tools {

struct SendmailOptions {
  char mode = 'm';        // of -b; q: the queue is to be flushed
  bool interval = false;  // -q15m: the interval at which a daemon looks at the queue
  std::string config_directory, flush_id, flush_site, alias_file;
  std::optional<std::string> sender, full_name;
  submission::Submission mail;
  Reading reading;
  bool verbose = false;
  std::string requiretls, smtputf8;  // the words of -O; empty: not given
  std::optional<std::string> verp;   // -XV; the delimiters may be empty
  std::vector<std::string> words;    // recipients

  static std::expected<SendmailOptions, service::Ending> read(int argc, const char* const* argv);

  /// True: there is nothing to do. -qTIME is for a daemon, and qmgr is one, so that it also ends other tasks than
  /// -bd; -bh and -bH are about a state of hosts that other sendmails record.
  bool idle() const {
    const bool daemon = mode == 'd' || mode == 'l';
    return mode == 'h' || mode == 'H' || (interval && !daemon);
  }
};

}  // namespace pen::tools
