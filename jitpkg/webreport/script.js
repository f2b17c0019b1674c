"use strict";

// Search: what does not hold the text is hidden, and what holds it inside is opened.
const items = [...document.querySelectorAll("[data-item]")];
document.getElementById("search").addEventListener("input", ({ target }) => {
  const wanted = target.value.toLowerCase();
  for (const item of items) {
    item.hidden = wanted !== "" && !item.textContent.toLowerCase().includes(wanted);
    if (item.tagName === "DETAILS") item.open = wanted !== "" && !item.hidden && items.length < 200;
  }
});

// The timeline: the wheel zooms around the pointer, dragging moves it, a double click shows all.
const svg = document.querySelector("svg.timeline");
if (svg) {
  const width = Number(svg.dataset.width);
  const bars = svg.querySelector("g.bars");
  let [scale, left] = [1, 0];
  const draw = () => {
    scale = Math.min(Math.max(scale, 1), 10000);
    left = Math.min(Math.max(left, 0), width - width / scale);
    bars.setAttribute("transform", `scale(${scale} 1) translate(${-left} 0)`);
  };
  const place = (event) => {
    const box = svg.getBoundingClientRect();
    return ((event.clientX - box.left) / box.width) * width;
  };
  svg.addEventListener("wheel", (event) => {
    event.preventDefault();
    const at = place(event);
    const under = left + at / scale;
    scale *= event.deltaY < 0 ? 1.25 : 0.8;
    left = under - at / Math.max(scale, 1);
    draw();
  }, { passive: false });
  svg.addEventListener("pointermove", (event) => {
    if (event.buttons !== 1) return;
    left -= (event.movementX / svg.getBoundingClientRect().width) * width / scale;
    draw();
  });
  svg.addEventListener("dblclick", () => {
    [scale, left] = [1, 0];
    draw();
  });
}
