//! What only the folder can be asked: what a killed process leaves, and that nothing empty stays.

use crate::embedded::fixture;
use bytes::Bytes;
use counterstep_kernel::ports::ObjectInfo;
use futures::{StreamExt, TryStreamExt, stream};
use std::path::Path;

async fn put(objects: &dyn counterstep_kernel::ports::Objects, key: &str) {
    let body = stream::iter([Ok(Bytes::from_static(b"x"))]).boxed();
    objects.put("files", key, body).await.unwrap();
}

fn entries(folder: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(folder).unwrap();
    let mut names: Vec<_> = entries
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}

#[tokio::test]
async fn what_a_killed_process_staged_is_listed_and_deleted() {
    let fixture = fixture().await;
    let objects = &*fixture.ports.objects;
    put(objects, "t/default/one/s/e1.1/0").await;
    let bucket = fixture.folder.path().join("objects/files");
    std::fs::write(bucket.join("t/default/one/s/e1.1/1#1"), "half").unwrap();
    let listed: Vec<ObjectInfo> = objects.list("t/default/one/").try_collect().await.unwrap();
    let mut keys: Vec<_> = listed.iter().map(|object| object.key.as_str()).collect();
    keys.sort_unstable();
    assert_eq!(keys, ["t/default/one/s/e1.1/0", "t/default/one/s/e1.1/1#1"]);
    assert_eq!(objects.delete_prefix("t/default/one/s/").await.unwrap(), 2);
    assert_eq!(entries(&bucket), Vec::<String>::new());
}

#[tokio::test]
async fn empty_folders_go_and_others_stay() {
    let fixture = fixture().await;
    let objects = &*fixture.ports.objects;
    put(objects, "t/default/one/s/e1.1/0").await;
    put(objects, "t/default/two/s/e1.1/0").await;
    objects
        .delete_prefix("t/default/one/s/e1.1/")
        .await
        .unwrap();
    assert_eq!(
        entries(&fixture.folder.path().join("objects/files/t/default")),
        ["two"]
    );
    objects.delete_prefix("t/default/two/").await.unwrap();
    assert_eq!(entries(&fixture.folder.path().join("objects")), ["files"]);
    assert_eq!(
        entries(&fixture.folder.path().join("objects/files")),
        Vec::<String>::new()
    );
    // A put that fails leaves no folder either.
    let broken = stream::iter([Err(std::io::Error::other("gone"))]).boxed();
    assert!(
        objects
            .put("files", "t/default/three/s/e1.1/0", broken)
            .await
            .is_err()
    );
    assert_eq!(
        entries(&fixture.folder.path().join("objects/files")),
        Vec::<String>::new()
    );
}

#[tokio::test]
async fn what_is_no_bucket_is_left_alone() {
    let fixture = fixture().await;
    let objects = &*fixture.ports.objects;
    let foreign = fixture
        .folder
        .path()
        .join("objects/Lost_and_found/t/default/one");
    std::fs::create_dir_all(&foreign).unwrap();
    std::fs::write(foreign.join("0"), "x").unwrap();
    assert_eq!(objects.delete_prefix("t/default/one/").await.unwrap(), 0);
    assert_eq!(objects.list("").try_collect::<Vec<_>>().await.unwrap(), []);
    assert!(foreign.join("0").exists());
}

#[cfg(unix)]
#[tokio::test]
async fn a_symbolic_link_is_never_followed() {
    let fixture = fixture().await;
    let objects = &*fixture.ports.objects;
    let outside = fixture.folder.path().join("outside");
    std::fs::create_dir_all(&outside).unwrap();
    std::fs::write(outside.join("precious"), "x").unwrap();
    put(objects, "t/default/one/s/e1.1/0").await;
    let link = fixture
        .folder
        .path()
        .join("objects/files/t/default/one/link");
    std::os::unix::fs::symlink(&outside, link).unwrap();
    assert_eq!(
        objects
            .list("")
            .try_collect::<Vec<_>>()
            .await
            .unwrap()
            .len(),
        1
    );
    assert_eq!(objects.delete_prefix("t/default/one/").await.unwrap(), 1);
    assert!(outside.join("precious").exists());
}

#[tokio::test]
async fn a_listing_longer_than_a_page_is_whole() {
    let fixture = fixture().await;
    let folder = fixture
        .folder
        .path()
        .join("objects/files/t/default/many/s/e1.1");
    std::fs::create_dir_all(&folder).unwrap();
    for n in 0..700 {
        std::fs::write(folder.join(n.to_string()), "x").unwrap();
    }
    let listed: Vec<ObjectInfo> = fixture
        .ports
        .objects
        .list("t/default/many/")
        .try_collect()
        .await
        .unwrap();
    assert_eq!(listed.len(), 700);
}

#[tokio::test]
async fn a_bucket_that_is_a_link_to_a_folder_is_listed_and_deleted_like_another() {
    let fixture = fixture().await;
    let objects = &*fixture.ports.objects;
    let (elsewhere, root) = (
        fixture.folder.path().join("elsewhere"),
        fixture.folder.path().join("objects"),
    );
    std::fs::create_dir_all(&elsewhere).unwrap();
    std::os::unix::fs::symlink(&elsewhere, root.join("files")).unwrap();
    put(objects, "t/default/one/s/e1.1/0").await;
    let listed: Vec<ObjectInfo> = objects.list("t/default/one/").try_collect().await.unwrap();
    assert_eq!(listed.len(), 1);
    let page = objects.page("t/default/one/", None, 10).await.unwrap();
    assert_eq!(page.objects.len(), 1);
    assert_eq!(objects.delete_prefix("t/default/one/s/").await.unwrap(), 1);
    assert_eq!(entries(&elsewhere), Vec::<String>::new());
    assert_eq!(entries(&root), ["files"]);
}

#[tokio::test]
async fn a_folder_that_takes_no_file_is_named_for_what_the_write_said() {
    let fixture = fixture().await;
    let root = fixture.folder.path().join("objects");
    std::fs::rename(&root, fixture.folder.path().join("elsewhere")).unwrap();
    // Not even root makes a file there.
    std::os::unix::fs::symlink("/sys", &root).unwrap();
    let refused = fixture.ports.objects.check().await.unwrap_err().to_string();
    let no_file = std::io::Error::from_raw_os_error(2).to_string();
    assert!(!refused.contains(&no_file), "{refused}");
}
