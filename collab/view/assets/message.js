// A page without more than a message.

document.documentElement.dataset.ready = "";
