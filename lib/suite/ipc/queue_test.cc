#include "lib/suite/ipc/queue.h"

#include <boost/test/unit_test.hpp>

namespace pen::ipc::queue {
namespace {

BOOST_AUTO_TEST_SUITE(queue_answers)

BOOST_AUTO_TEST_CASE(no_answer_names_a_message_by_a_path) {
  // What a queue manager might say that somebody has taken over: tools make names of files of it, as root too.
  for (const std::string& id :
       {std::string("../../root/.profile"), std::string("a/b"), std::string("4bGNsx3Ynxz1kGz8\0x", 18),
        std::string("."), std::string(500, 'a'), std::string("4bGNsx3\n")}) {
    Entry entry;
    entry.queue_id = id;
    Content content;
    content.envelope.queue_id = id;
    SpoolFile file;
    file.queue_id = id;
    Happened happened;
    happened.queue_id = id;
    for (const FromQmgr& answer : {FromQmgr(entry), FromQmgr(content), FromQmgr(file), FromQmgr(happened)})
      BOOST_TEST(!names_messages(answer), id << " " << answer.index());
    entry.queue_id = content.envelope.queue_id = file.queue_id = happened.queue_id = "4bGNsx3Ynxz1kGz8";
    for (const FromQmgr& answer : {FromQmgr(entry), FromQmgr(content), FromQmgr(file), FromQmgr(happened)})
      BOOST_TEST(names_messages(answer), answer.index());
  }
  // These name none.
  BOOST_TEST(names_messages(FromQmgr(SpoolFile{})));
  BOOST_TEST(names_messages(FromQmgr(Happened{})));
  BOOST_TEST(names_messages(FromQmgr(Done{})));
  BOOST_TEST(!names_messages(FromQmgr(Entry{})));
  BOOST_TEST(!names_messages(FromQmgr(Content{})));
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace
}  // namespace pen::ipc::queue
